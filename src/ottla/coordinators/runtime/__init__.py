"""The runtime that coordinators share. It knows none of them, and none of their records.

A coordinator keeps its state in the partitions of a topic. A shard replays one of these partitions,
and decides for the keys that belong to it.
"""
