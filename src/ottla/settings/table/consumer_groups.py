"""Groups of the consumer protocol (KIP-848), whose timeouts the broker decides."""

from enum import StrEnum

from ottla.settings.kinds import INT_MAX, OneOf, TextList, Unit, integer
from ottla.settings.setting import broker_setting, group_setting


class MigrationPolicy(StrEnum):
    """The direction in which a group may change its protocol while it has members."""

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
    "How long a member may send no heartbeat before it is removed from its group.",
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = broker_setting(
    "group.consumer.min.session.timeout.ms",
    integer(1, unit=Unit.MS),
    45_000,
    "The minimum session timeout of the broker and of groups.",
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = broker_setting(
    "group.consumer.max.session.timeout.ms",
    integer(1, unit=Unit.MS),
    60_000,
    "The maximum session timeout of the broker and of groups.",
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = broker_setting(
    "group.consumer.heartbeat.interval.ms",
    integer(1, unit=Unit.MS),
    5_000,
    "The interval at which members send heartbeats.",
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = broker_setting(
    "group.consumer.min.heartbeat.interval.ms",
    integer(1, unit=Unit.MS),
    5_000,
    "The minimum heartbeat interval of the broker and of groups.",
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = broker_setting(
    "group.consumer.max.heartbeat.interval.ms",
    integer(1, unit=Unit.MS),
    15_000,
    "The maximum heartbeat interval of the broker and of groups.",
)
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = broker_setting(
    "group.consumer.assignment.interval.ms",
    integer(0, unit=Unit.MS),
    1_000,
    "The minimum time between two assignments of a group's partitions.",
    is_dynamic=True,
)
GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS = broker_setting(
    "group.consumer.min.assignment.interval.ms",
    integer(0, unit=Unit.MS),
    0,
    "The minimum assignment interval of the broker and of groups.",
)
GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS = broker_setting(
    "group.consumer.max.assignment.interval.ms",
    integer(0, unit=Unit.MS),
    15_000,
    "The maximum assignment interval of the broker and of groups.",
)
GROUP_CONSUMER_MAX_SIZE = broker_setting(
    "group.consumer.max.size",
    integer(1),
    INT_MAX,
    "The maximum number of members of a group.",
)
GROUP_CONSUMER_ASSIGNORS = broker_setting(
    "group.consumer.assignors",
    TextList(choices=("uniform", "range"), may_be_empty=False),
    ("uniform", "range"),
    "The assignors that members may choose; the first is the default.",
)
GROUP_CONSUMER_MIGRATION_POLICY = broker_setting(
    "group.consumer.migration.policy",
    OneOf(MigrationPolicy),
    MigrationPolicy.BIDIRECTIONAL,
    "Whether a group moves to the consumer protocol when its first member joins with it"
    " (`upgrade`), and back to the classic protocol when the last such member leaves"
    " (`downgrade`).",
)

# Group settings

CONSUMER_SESSION_TIMEOUT_MS = group_setting(
    "consumer.session.timeout.ms",
    GROUP_CONSUMER_SESSION_TIMEOUT_MS,
    "How long a member of this group may send no heartbeat before it is removed.",
)
CONSUMER_HEARTBEAT_INTERVAL_MS = group_setting(
    "consumer.heartbeat.interval.ms",
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
    "The interval at which members of this group send heartbeats.",
)
CONSUMER_ASSIGNMENT_INTERVAL_MS = group_setting(
    "consumer.assignment.interval.ms",
    GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
    "The minimum time between two assignments of this group's partitions.",
)
