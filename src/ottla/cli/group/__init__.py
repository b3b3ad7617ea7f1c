"""`ottla group …`: the consumer groups of a cluster."""
