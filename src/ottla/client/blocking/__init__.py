"""The client for threads that may block: no event loop."""
