"""The settings in force for a consumer group."""

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
    """The broker's `group.consumer.*` settings, and the group's own."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    # Changes of the membership within one interval share one assignment.
    assignment_interval_ms: int = 1_000
    size_max: int = 2**31 - 1
    # The first is the default.
    assignors: tuple[str, ...] = ("uniform", "range")
    # The most groups of a shard.
    groups_max: int = 100_000
    # The target assignments of all members, and one member's update, must fit one batch of the log.
    target_bytes_max: int = 8 << 20
    # After a downgrade the group must fit one record.
    saved_bytes_max: int = 15 << 20
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    # The most members that the group may have for a downgrade.
    classic_size_max: int = 2**31 - 1

    @classmethod
    def of(cls, settings: BrokerSettings, own: GroupConfigs) -> Self:
        """The rules of one group."""
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
