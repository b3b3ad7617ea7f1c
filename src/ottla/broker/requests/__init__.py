"""Dispatch of requests to handlers, and the code that handlers share."""
