"""A broker: connections, requests and their handlers, composition, health and event log."""
