"""A consumer that is a member of a group."""
