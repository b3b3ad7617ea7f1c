"""Groups of the consumer protocol (KIP-848): the broker says how their members live."""

from enum import StrEnum

from ottla.settings.kinds import INT_MAX, Listing, OneOf, Unit, integer
from ottla.settings.setting import broker_setting, group_setting


class MigrationPolicy(StrEnum):
    """Which way a group may go between the protocols while it has members."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def may_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def may_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


GROUP_CONSUMER_SESSION_TIMEOUT_MS = broker_setting(
    "group.consumer.session.timeout.ms",
    integer(1, unit=Unit.MS),
    45_000,
    "How long a member may be silent before it is taken for dead.",
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = broker_setting(
    "group.consumer.min.session.timeout.ms",
    integer(1, unit=Unit.MS),
    45_000,
    "The shortest such time that the broker or a group may be given.",
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = broker_setting(
    "group.consumer.max.session.timeout.ms",
    integer(1, unit=Unit.MS),
    60_000,
    "The longest such time that the broker or a group may be given.",
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = broker_setting(
    "group.consumer.heartbeat.interval.ms",
    integer(1, unit=Unit.MS),
    5_000,
    "How often members are told to send a heartbeat.",
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = broker_setting(
    "group.consumer.min.heartbeat.interval.ms",
    integer(1, unit=Unit.MS),
    5_000,
    "The shortest such interval that the broker or a group may be given.",
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = broker_setting(
    "group.consumer.max.heartbeat.interval.ms",
    integer(1, unit=Unit.MS),
    15_000,
    "The longest such interval that the broker or a group may be given.",
)
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = broker_setting(
    "group.consumer.assignment.interval.ms",
    integer(0, unit=Unit.MS),
    1_000,
    "How soon after the last time a group's partitions may be shared out again.",
    is_dynamic=True,
)
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = broker_setting(
    "group.consumer.min.assignment.interval.ms",
    integer(0, unit=Unit.MS),
    0,
    "The shortest such interval that the broker or a group may be given.",
)
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = broker_setting(
    "group.consumer.max.assignment.interval.ms",
    integer(0, unit=Unit.MS),
    15_000,
    "The longest such interval that the broker or a group may be given.",
)
GROUP_CONSUMER_MAX_SIZE = broker_setting(
    "group.consumer.max.size",
    integer(1),
    INT_MAX,
    "How many members a group may have.",
)
GROUP_CONSUMER_ASSIGNORS = broker_setting(
    "group.consumer.assignors",
    Listing(choices=("uniform", "range"), may_be_empty=False),
    ("uniform", "range"),
    "The assignors that members may ask for; the first is for groups whose members ask for none.",
)
GROUP_CONSUMER_MIGRATION_POLICY = broker_setting(
    "group.consumer.migration.policy",
    OneOf(MigrationPolicy),
    MigrationPolicy.BIDIRECTIONAL,
    "Whether a group moves to the consumer protocol when its first member joins by it (`upgrade`),"
    " and back to the classic one when the last such member leaves (`downgrade`).",
)

# What a group may have of its own

CONSUMER_SESSION_TIMEOUT_MS = group_setting(
    "consumer.session.timeout.ms",
    GROUP_CONSUMER_SESSION_TIMEOUT_MS,
    "How long a member of this group may be silent before it is taken for dead.",
)
CONSUMER_HEARTBEAT_INTERVAL_MS = group_setting(
    "consumer.heartbeat.interval.ms",
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
    "How often members of this group are told to send a heartbeat.",
)
CONSUMER_ASSIGNMENT_INTERVAL_MS = group_setting(
    "consumer.assignment.interval.ms",
    GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
    "How soon after the last time this group's partitions may be shared out again.",
)
