"""Composition of a broker: start, stop, background tasks, dynamic settings."""
