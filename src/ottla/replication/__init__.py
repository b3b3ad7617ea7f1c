"""Partitions and their replicas: leadership, high watermark, parked requests."""
