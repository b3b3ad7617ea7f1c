"""Classic groups: members join and sync, and their leader assigns (KIP-62 and later)."""
