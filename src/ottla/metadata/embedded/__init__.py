"""The metadata store of a single broker: a log and a snapshot in its own log directory."""
