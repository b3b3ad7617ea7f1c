"""Spark loads, which run in a separate process."""
