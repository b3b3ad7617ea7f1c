"""`ottla txn …`: the transactions of a cluster."""
