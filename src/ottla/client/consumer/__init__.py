"""Consumers that share the partitions of topics as a group."""
