"""The cluster metadata: one ordered log of records, replayed into one image."""
