"""Retention by age and size, and log compaction."""

from ottla.settings.kinds import LONG_MAX, Boolean, Double, TextList, Unit, integer, long
from ottla.settings.setting import CoarserFallback, broker_setting, topic_setting

DOUBLE_MAX = 1.7976931348623157e308
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS

CLEANUP_POLICY = topic_setting(
    "cleanup.policy",
    TextList(choices=("compact", "delete")),
    ("delete",),
    "Whether old segments are deleted, or compacted to the latest record of each key.",
    broker="log.cleanup.policy",
)
RETENTION_MS = topic_setting(
    "retention.ms",
    long(-1, unit=Unit.MS),
    168 * _HOUR_MS,
    "The age of a segment's latest record at which the segment is deleted; -1 is unlimited.",
    broker="log.retention.ms",
    coarser=(
        CoarserFallback("log.retention.minutes", integer(-1, unit=Unit.MINUTES), _MINUTE_MS),
        CoarserFallback("log.retention.hours", integer(-1, unit=Unit.HOURS), _HOUR_MS, default=168),
    ),
)
RETENTION_BYTES = topic_setting(
    "retention.bytes",
    long(unit=Unit.BYTES),
    -1,
    "The size that a partition keeps at least when segments are deleted by size; negative is"
    " unlimited.",
    broker="log.retention.bytes",
)
LOG_RETENTION_CHECK_INTERVAL_MS = broker_setting(
    "log.retention.check.interval.ms",
    long(1, unit=Unit.MS),
    300_000,
    "How often the broker checks for segments to delete.",
)
FILE_DELETE_DELAY_MS = topic_setting(
    "file.delete.delay.ms",
    long(0, unit=Unit.MS),
    60_000,
    "How long the files of a deleted segment or partition stay on disk for pending reads.",
    broker="log.segment.delete.delay.ms",
)
DELETE_RETENTION_MS = topic_setting(
    "delete.retention.ms",
    long(0, unit=Unit.MS),
    86_400_000,
    "How long compaction keeps the tombstone of a deleted key.",
    broker="log.cleaner.delete.retention.ms",
)
MIN_COMPACTION_LAG_MS = topic_setting(
    "min.compaction.lag.ms",
    long(0, unit=Unit.MS),
    0,
    "The minimum age of a record at which it can be compacted.",
    broker="log.cleaner.min.compaction.lag.ms",
)
MAX_COMPACTION_LAG_MS = topic_setting(
    "max.compaction.lag.ms",
    long(1, unit=Unit.MS),
    LONG_MAX,
    "The age of a record at which its log is compacted, even if it is below the dirty ratio.",
    broker="log.cleaner.max.compaction.lag.ms",
)
MIN_CLEANABLE_DIRTY_RATIO = topic_setting(
    "min.cleanable.dirty.ratio",
    Double(0.0, 1.0),
    0.5,
    "The share of a log that must be new since its last compaction before the next one.",
    broker="log.cleaner.min.cleanable.ratio",
)
LOG_CLEANER_ENABLE = broker_setting(
    "log.cleaner.enable",
    Boolean(),
    True,
    "Whether the logs of compacted topics are compacted.",
)
LOG_CLEANER_THREADS = broker_setting(
    "log.cleaner.threads",
    integer(0),
    1,
    "The number of logs that are compacted at the same time.",
    is_dynamic=True,
    unsupported_reason="one process compacts all logs, one after another",
)
LOG_CLEANER_BACKOFF_MS = broker_setting(
    "log.cleaner.backoff.ms",
    long(0, unit=Unit.MS),
    15_000,
    "How long the cleaner sleeps when there is no log to clean.",
    is_dynamic=True,
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = broker_setting(
    "log.cleaner.dedupe.buffer.size",
    long(1 << 10, unit=Unit.BYTES),
    128 << 20,
    "The maximum memory for the keys of one compaction, at 24 bytes per key.",
    is_dynamic=True,
)
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = broker_setting(
    "log.cleaner.io.buffer.load.factor",
    Double(0.01, 1.0),
    0.9,
    "The load factor of the table of keys: a fuller table holds more keys but is slower.",
    is_dynamic=True,
)
LOG_CLEANER_IO_BUFFER_SIZE = broker_setting(
    "log.cleaner.io.buffer.size",
    integer(1 << 10, unit=Unit.BYTES),
    512 << 10,
    "The size of one read of the cleaner.",
    is_dynamic=True,
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = broker_setting(
    "log.cleaner.io.max.bytes.per.second",
    Double(1.0, DOUBLE_MAX),
    DOUBLE_MAX,
    "The maximum bytes that the cleaner reads and writes per second.",
    is_dynamic=True,
)
