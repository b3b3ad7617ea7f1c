"""The settings that a group of the consumer protocol lives by."""

from typing import NamedTuple, Self

from ottla.settings.broker import BrokerSettings
from ottla.settings.group import GroupConfigs
from ottla.settings.table.consumer_groups import (
    CONSUMER_ASSIGNMENT_INTERVAL_MS,
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
    GROUP_CONSUMER_ASSIGNORS,
    GROUP_CONSUMER_MAX_SIZE,
    GROUP_CONSUMER_MIGRATION_POLICY,
    MigrationPolicy,
)
from ottla.settings.table.groups import GROUP_MAX_SIZE, GROUPS_MAX


class ConsumerRules(NamedTuple):
    """By Kafka's names: `group.consumer.*`, and what the group has of its own."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    # Members that join or leave within one interval are assigned for together.
    assignment_interval_ms: int = 1_000
    size_max: int = 2**31 - 1
    # The first is the one for groups whose members name none.
    assignors: tuple[str, ...] = ("uniform", "range")
    # How many groups a shard has room for.
    groups_max: int = 100_000
    # The target of all members is one batch of the log, together with what a member has said.
    target_bytes_max: int = 8 << 20
    # The group is one record if it becomes a classic one.
    saved_bytes_max: int = 15 << 20
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    # How many members the group may have if it becomes a classic one.
    classic_size_max: int = 2**31 - 1

    @classmethod
    def of(cls, settings: BrokerSettings, own: GroupConfigs) -> Self:
        """Those in force for one group."""
        return cls(
            session_timeout_ms=own.in_bounds(CONSUMER_SESSION_TIMEOUT_MS),
            heartbeat_interval_ms=own.in_bounds(CONSUMER_HEARTBEAT_INTERVAL_MS),
            assignment_interval_ms=own.in_bounds(CONSUMER_ASSIGNMENT_INTERVAL_MS),
            size_max=settings[GROUP_CONSUMER_MAX_SIZE],
            assignors=settings[GROUP_CONSUMER_ASSIGNORS],
            groups_max=settings[GROUPS_MAX],
            migration=settings[GROUP_CONSUMER_MIGRATION_POLICY],
            classic_size_max=settings[GROUP_MAX_SIZE],
        )
