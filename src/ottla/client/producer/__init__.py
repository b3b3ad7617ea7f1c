"""Sending record batches to partition leaders."""
