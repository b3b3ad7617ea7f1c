"""Kafka's `acks`: its numbers on the wire."""

from enum import IntEnum


class Acks(IntEnum):
    """Who has a batch when it counts as sent: nobody yet, the leader, all that are in sync."""

    NONE = 0
    LEADER = 1
    ALL = -1
