"""Reads partitions: offsets, fetches, visible records."""
