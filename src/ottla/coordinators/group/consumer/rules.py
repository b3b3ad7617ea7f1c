"""The settings that a group of the consumer protocol lives by."""

from typing import NamedTuple, Self

from ottla.settings.broker import BrokerSettings
from ottla.settings.table.consumer_groups import (
    GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
    GROUP_CONSUMER_ASSIGNORS,
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
    GROUP_CONSUMER_MAX_SIZE,
    GROUP_CONSUMER_SESSION_TIMEOUT_MS,
)
from ottla.settings.table.groups import GROUPS_MAX


class ConsumerRules(NamedTuple):
    """By Kafka's names: `group.consumer.*`."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    # Members that join or leave within one interval are assigned for together.
    assignment_interval_ms: int = 1_000
    size_max: int = 2**31 - 1
    # The first is the one for groups whose members name none.
    assignors: tuple[str, ...] = ("uniform", "range")
    # How many groups a shard has room for.
    groups_max: int = 100_000
    # What one heartbeat changes is one batch of the log, and must fit it.
    saved_bytes_max: int = 15 << 20

    @classmethod
    def of(cls, settings: BrokerSettings) -> Self:
        """Those in force."""
        return cls(
            session_timeout_ms=settings[GROUP_CONSUMER_SESSION_TIMEOUT_MS],
            heartbeat_interval_ms=settings[GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS],
            assignment_interval_ms=settings[GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS],
            size_max=settings[GROUP_CONSUMER_MAX_SIZE],
            assignors=settings[GROUP_CONSUMER_ASSIGNORS],
            groups_max=settings[GROUPS_MAX],
        )
