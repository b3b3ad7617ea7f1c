"""The blocking client: no event loop."""
