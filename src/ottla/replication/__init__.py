"""Partitions and their replicas: who leads, how far is committed, who waits for it."""
