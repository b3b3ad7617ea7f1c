"""Scenes about transactions that any broker which behaves like Kafka answers alike."""
