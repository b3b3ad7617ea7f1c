"""The runtime that all coordinators share; it depends on no coordinator and on no record type.

A coordinator keeps its state in the partitions of a topic. A shard replays one of these partitions
and decides for the keys that belong to it.
"""
