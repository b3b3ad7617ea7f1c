"""`ottla log verify`: reads a whole log directory, reports damage, and repairs it with `--yes`."""
