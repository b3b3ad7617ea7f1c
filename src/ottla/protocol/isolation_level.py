"""Kafka's `isolation.level`: its number on the wire."""

from enum import IntEnum


class Isolation(IntEnum):
    """Whether records of transactions that are not over, or were aborted, are seen."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
