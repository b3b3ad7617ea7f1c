"""Loads: each is the same for every broker, by a client that is not the limit."""
