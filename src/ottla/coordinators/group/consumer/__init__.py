"""Groups whose members speak the consumer protocol (KIP-848): the broker assigns, by heartbeats."""
