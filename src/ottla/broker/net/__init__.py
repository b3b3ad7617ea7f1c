"""Connections: listening, receiving requests, sending replies."""
