"""Sends record batches to partition leaders."""
