"""The controller's decisions: topics, partitions, configurations, brokers. No I/O."""
