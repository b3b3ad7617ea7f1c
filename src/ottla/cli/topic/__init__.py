"""`ottla topic …`: the topics of a cluster."""
