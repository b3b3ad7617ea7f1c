"""Kafka's log on disk: segments, indexes, checkpoints, recovery. No event loop."""
