"""The metrics and health port."""
