"""Producer state: idempotence, transactions, and their snapshots."""
