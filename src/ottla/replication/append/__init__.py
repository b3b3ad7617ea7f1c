"""Produce requests: appends by the leader, acknowledgement, flushes."""
