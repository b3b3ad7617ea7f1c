"""Topics as Arrow: spans of offsets to record batches, and a whole topic to a table."""
