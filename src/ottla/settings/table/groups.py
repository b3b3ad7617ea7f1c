"""Consumer groups: where their offsets are kept and for how long, and how their members live."""

from ottla.settings.kinds import INT_MAX, Unit, integer, long, short
from ottla.settings.setting import broker_setting

_MINUTE_MS = 60_000

# What is committed

OFFSETS_TOPIC_NUM_PARTITIONS = broker_setting(
    "offsets.topic.num.partitions",
    integer(1, 1_000),
    50,
    "How many partitions the topic of committed offsets gets when it is made.",
)
OFFSETS_TOPIC_REPLICATION_FACTOR = broker_setting(
    "offsets.topic.replication.factor",
    short(1),
    3,
    "How many copies the topic of committed offsets gets when it is made; where there are fewer"
    " brokers, as many as there are.",
)
OFFSETS_TOPIC_SEGMENT_BYTES = broker_setting(
    "offsets.topic.segment.bytes",
    integer(1 << 20, unit=Unit.BYTES),
    100 << 20,
    "How large segments of the topic of committed offsets get: less is compacted sooner.",
)
OFFSETS_RETENTION_MINUTES = broker_setting(
    "offsets.retention.minutes",
    integer(1, unit=Unit.MINUTES),
    7 * 24 * 60,
    "How long committed offsets are kept after their group lost its last member, or after the"
    " commit where there never was one.",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = broker_setting(
    "offsets.retention.check.interval.ms",
    long(1, unit=Unit.MS),
    600_000,
    "How often the broker looks for committed offsets whose time is over.",
)
OFFSETS_COMMIT_TIMEOUT_MS = broker_setting(
    "offsets.commit.timeout.ms",
    integer(1, unit=Unit.MS),
    5_000,
    "How long a change of a group may take to reach all copies in sync before its client is told"
    " to ask again.",
)
OFFSET_METADATA_MAX_BYTES = broker_setting(
    "offset.metadata.max.bytes",
    integer(0, unit=Unit.BYTES),
    4096,
    "How long the note may be that a consumer commits with an offset.",
)
GROUPS_MAX = broker_setting(
    "ottla.groups.max",
    integer(1),
    100_000,
    "How many groups one partition of the topic of committed offsets has room for.",
)

# Members of the classic protocol

GROUP_MIN_SESSION_TIMEOUT_MS = broker_setting(
    "group.min.session.timeout.ms",
    integer(1, unit=Unit.MS),
    6_000,
    "The shortest time that a member may ask to be silent for before it is taken for dead.",
)
GROUP_MAX_SESSION_TIMEOUT_MS = broker_setting(
    "group.max.session.timeout.ms",
    integer(1, unit=Unit.MS),
    30 * _MINUTE_MS,
    "The longest time that a member may ask to be silent for before it is taken for dead.",
)
GROUP_INITIAL_REBALANCE_DELAY_MS = broker_setting(
    "group.initial.rebalance.delay.ms",
    integer(0, unit=Unit.MS),
    3_000,
    "How long a new group waits for more members before partitions are shared out.",
)
GROUP_MAX_SIZE = broker_setting(
    "group.max.size",
    integer(1),
    INT_MAX,
    "How many members a group may have.",
)
