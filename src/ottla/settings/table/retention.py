"""How long records stay: by age, by size, and what is done with the old ones."""

from ottla.settings.kinds import LONG_MAX, Boolean, Double, Listing, Unit, integer, long
from ottla.settings.setting import Coarser, broker_setting, topic_setting

DOUBLE_MAX = 1.7976931348623157e308
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS

CLEANUP_POLICY = topic_setting(
    "cleanup.policy",
    Listing(choices=("compact", "delete")),
    ("delete",),
    "What becomes of old records: deleted, or compacted to the last one of each key.",
    broker="log.cleanup.policy",
)
RETENTION_MS = topic_setting(
    "retention.ms",
    long(-1, unit=Unit.MS),
    168 * _HOUR_MS,
    "How old a segment's latest record gets before the segment is deleted; -1 is for ever.",
    broker="log.retention.ms",
    coarser=(
        Coarser("log.retention.minutes", integer(-1, unit=Unit.MINUTES), _MINUTE_MS),
        Coarser("log.retention.hours", integer(-1, unit=Unit.HOURS), _HOUR_MS, default=168),
    ),
)
RETENTION_BYTES = topic_setting(
    "retention.bytes",
    long(unit=Unit.BYTES),
    -1,
    "What a partition keeps at least when segments are deleted for its size; below 0, all of it.",
    broker="log.retention.bytes",
)
LOG_RETENTION_CHECK_INTERVAL_MS = broker_setting(
    "log.retention.check.interval.ms",
    long(1, unit=Unit.MS),
    300_000,
    "How often the broker looks for segments to delete.",
)
FILE_DELETE_DELAY_MS = topic_setting(
    "file.delete.delay.ms",
    long(0, unit=Unit.MS),
    60_000,
    "How long the files of a deleted segment or partition stay on disk, for those who read them.",
    broker="log.segment.delete.delay.ms",
)
DELETE_RETENTION_MS = topic_setting(
    "delete.retention.ms",
    long(0, unit=Unit.MS),
    86_400_000,
    "How long compaction keeps the record that says that a key is gone.",
    broker="log.cleaner.delete.retention.ms",
)
MIN_COMPACTION_LAG_MS = topic_setting(
    "min.compaction.lag.ms",
    long(0, unit=Unit.MS),
    0,
    "How long a record is left alone by compaction.",
    broker="log.cleaner.min.compaction.lag.ms",
)
MAX_COMPACTION_LAG_MS = topic_setting(
    "max.compaction.lag.ms",
    long(1, unit=Unit.MS),
    LONG_MAX,
    "After what time a record is compacted even if little else in its log is.",
    broker="log.cleaner.max.compaction.lag.ms",
)
MIN_CLEANABLE_DIRTY_RATIO = topic_setting(
    "min.cleanable.dirty.ratio",
    Double(0.0, 1.0),
    0.5,
    "What share of a log must be new since the last compaction before there is another one.",
    broker="log.cleaner.min.cleanable.ratio",
)
LOG_CLEANER_ENABLE = broker_setting(
    "log.cleaner.enable",
    Boolean(),
    True,
    "Whether logs are compacted, where their topics ask for it.",
)
LOG_CLEANER_THREADS = broker_setting(
    "log.cleaner.threads",
    integer(0),
    1,
    "How many logs are compacted at a time.",
    is_dynamic=True,
    only_default="one process compacts all logs, one after another",
)
LOG_CLEANER_BACKOFF_MS = broker_setting(
    "log.cleaner.backoff.ms",
    long(0, unit=Unit.MS),
    15_000,
    "How long compaction waits when there was nothing to do before it looks again.",
    is_dynamic=True,
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = broker_setting(
    "log.cleaner.dedupe.buffer.size",
    long(1 << 10, unit=Unit.BYTES),
    128 << 20,
    "The most memory that the keys of one compaction take, at 24 bytes a key.",
    is_dynamic=True,
)
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = broker_setting(
    "log.cleaner.io.buffer.load.factor",
    Double(0.01, 1.0),
    0.9,
    "How full the table of keys gets: a fuller one holds more keys and finds them more slowly.",
    is_dynamic=True,
)
LOG_CLEANER_IO_BUFFER_SIZE = broker_setting(
    "log.cleaner.io.buffer.size",
    integer(1 << 10, unit=Unit.BYTES),
    512 << 10,
    "How much of a log compaction reads at a time.",
    is_dynamic=True,
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = broker_setting(
    "log.cleaner.io.max.bytes.per.second",
    Double(1.0, DOUBLE_MAX),
    DOUBLE_MAX,
    "How much compaction reads and writes together in a second.",
    is_dynamic=True,
)
