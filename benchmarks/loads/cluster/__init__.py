"""Loads on three brokers: failures, restarts, many partitions."""
