"""Consumer groups (KIP-848): the broker assigns, and members learn of it by heartbeats."""
