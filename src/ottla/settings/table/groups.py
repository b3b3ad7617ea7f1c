"""Consumer groups: the offsets topic, offset retention, and members of the classic protocol."""

from ottla.settings.kinds import INT_MAX, Unit, integer, long, short
from ottla.settings.setting import broker_setting

_MINUTE_MS = 60_000

# Committed offsets

OFFSETS_TOPIC_NUM_PARTITIONS = broker_setting(
    "offsets.topic.num.partitions",
    integer(1, 1_000),
    50,
    "The number of partitions with which the offsets topic is created.",
)
OFFSETS_TOPIC_REPLICATION_FACTOR = broker_setting(
    "offsets.topic.replication.factor",
    short(1),
    3,
    "The replication factor with which the offsets topic is created, once so many brokers are up;"
    " a broker without a cluster creates it with one replica.",
)
OFFSETS_TOPIC_SEGMENT_BYTES = broker_setting(
    "offsets.topic.segment.bytes",
    integer(1 << 20, unit=Unit.BYTES),
    100 << 20,
    "The segment size of the offsets topic: smaller segments are compacted sooner.",
)
OFFSETS_RETENTION_MINUTES = broker_setting(
    "offsets.retention.minutes",
    integer(1, unit=Unit.MINUTES),
    7 * 24 * 60,
    "How long committed offsets are kept after their group lost its last member, or after the"
    " commit if the group never had a member.",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = broker_setting(
    "offsets.retention.check.interval.ms",
    long(1, unit=Unit.MS),
    600_000,
    "How often the broker checks for expired offsets.",
)
OFFSETS_COMMIT_TIMEOUT_MS = broker_setting(
    "offsets.commit.timeout.ms",
    integer(1, unit=Unit.MS),
    5_000,
    "How long a change of a group may take to reach all in-sync replicas before the client has to"
    " retry.",
)
OFFSET_METADATA_MAX_BYTES = broker_setting(
    "offset.metadata.max.bytes",
    integer(0, unit=Unit.BYTES),
    4096,
    "The maximum size of the metadata that a consumer commits with an offset.",
)
GROUPS_MAX = broker_setting(
    "ottla.groups.max",
    integer(1),
    100_000,
    "The maximum number of groups per partition of the offsets topic.",
)

# Members of the classic protocol

GROUP_MIN_SESSION_TIMEOUT_MS = broker_setting(
    "group.min.session.timeout.ms",
    integer(1, unit=Unit.MS),
    6_000,
    "The minimum session timeout that a member may request.",
)
GROUP_MAX_SESSION_TIMEOUT_MS = broker_setting(
    "group.max.session.timeout.ms",
    integer(1, unit=Unit.MS),
    30 * _MINUTE_MS,
    "The maximum session timeout that a member may request.",
)
GROUP_INITIAL_REBALANCE_DELAY_MS = broker_setting(
    "group.initial.rebalance.delay.ms",
    integer(0, unit=Unit.MS),
    3_000,
    "How long a new group waits for more members before its first rebalance.",
)
GROUP_MAX_SIZE = broker_setting(
    "group.max.size",
    integer(1),
    INT_MAX,
    "The maximum number of members of a group.",
)
