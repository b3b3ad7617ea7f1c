"""Several brokers of one cluster under crashes, pauses, partitions and power losses, by seeds."""
