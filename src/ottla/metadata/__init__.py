"""What the cluster has agreed on: one ordered log of records, folded into one image."""
