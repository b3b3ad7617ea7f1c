"""Reassignments of replicas: plans, their execution and their progress, for several commands."""
