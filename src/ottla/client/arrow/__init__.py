"""Topics as Arrow: spans of offsets as record batches, a whole topic as a table."""
