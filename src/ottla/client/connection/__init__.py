"""A connection to one broker, and the addresses to find the first one."""
