"""Transactions: their coordinator, which keeps its state in `__transaction_state`."""
