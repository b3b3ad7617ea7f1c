"""Spark, in a process of its own: what it is asked to do, and what it says of it."""
