"""The metadata store in ZooKeeper, for a cluster of brokers."""
