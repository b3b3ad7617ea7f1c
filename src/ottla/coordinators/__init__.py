"""Coordinators: their state is replayed from a partition of a topic, and its leader decides."""
