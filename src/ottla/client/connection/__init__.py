"""A connection to one broker, and bootstrap addresses."""
