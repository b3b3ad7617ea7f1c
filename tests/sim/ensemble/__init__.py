"""A simulated ZooKeeper: servers, sessions, watches, and their faults."""
