"""Kafka's log on disk: segments, indexes, checkpoints, recovery. One owner a log, no event loop."""
