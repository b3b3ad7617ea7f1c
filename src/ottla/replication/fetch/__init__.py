"""Fetch requests: sessions, reads from logs, cold reads."""
