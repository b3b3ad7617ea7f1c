"""How long records stay: by age, by size, and what is done with the old ones."""

from ottla.settings.kinds import LONG_MAX, Double, Listing, Unit, integer, long
from ottla.settings.setting import Coarser, broker_setting, topic_setting

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS

_NO_COMPACTION = "logs are not compacted"

CLEANUP_POLICY = topic_setting(
    "cleanup.policy",
    Listing(choices=("compact", "delete")),
    ("delete",),
    "What becomes of old records: deleted, or compacted to the last one of each key.",
    broker="log.cleanup.policy",
    only_default=_NO_COMPACTION,
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
    only_default=_NO_COMPACTION,
)
MIN_COMPACTION_LAG_MS = topic_setting(
    "min.compaction.lag.ms",
    long(0, unit=Unit.MS),
    0,
    "How long a record is left alone by compaction.",
    broker="log.cleaner.min.compaction.lag.ms",
    only_default=_NO_COMPACTION,
)
MAX_COMPACTION_LAG_MS = topic_setting(
    "max.compaction.lag.ms",
    long(1, unit=Unit.MS),
    LONG_MAX,
    "After what time a record is compacted even if little else in its log is.",
    broker="log.cleaner.max.compaction.lag.ms",
    only_default=_NO_COMPACTION,
)
MIN_CLEANABLE_DIRTY_RATIO = topic_setting(
    "min.cleanable.dirty.ratio",
    Double(0.0, 1.0),
    0.5,
    "What share of a log must be new since the last compaction before there is another one.",
    broker="log.cleaner.min.cleanable.ratio",
    only_default=_NO_COMPACTION,
)
