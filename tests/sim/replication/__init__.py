"""A cluster whose partitions have several replicas, under faults of every kind."""
