"""Requests between brokers: connections to the controller, and what is sent on them."""
