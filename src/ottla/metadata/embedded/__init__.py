"""The metadata store of a single broker: a log and snapshots in its own data directory."""
