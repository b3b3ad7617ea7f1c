"""Checks of a batch before it is appended to a log."""
