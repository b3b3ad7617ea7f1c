"""The runtime that every coordinator shares: shards of state, replayed from a partition."""
