"""Logs on disk: segments, indexes, flushing, and limits on disk space and open files."""

from ottla.settings.kinds import LONG_MAX, Boolean, Unit, integer, long
from ottla.settings.setting import CoarserFallback, broker_setting, topic_setting

_HOUR_MS = 3_600_000

SEGMENT_BYTES = topic_setting(
    "segment.bytes",
    integer(1 << 20, unit=Unit.BYTES),
    1 << 30,
    "The maximum size of a segment; a new segment is rolled before a batch that would exceed it.",
    broker="log.segment.bytes",
)
SEGMENT_MS = topic_setting(
    "segment.ms",
    long(1, unit=Unit.MS),
    168 * _HOUR_MS,
    "The maximum time that a segment's records span before a new segment is rolled.",
    broker="log.roll.ms",
    coarser=(
        CoarserFallback("log.roll.hours", integer(1, unit=Unit.HOURS), _HOUR_MS, default=168),
    ),
)
SEGMENT_JITTER_MS = topic_setting(
    "segment.jitter.ms",
    long(0, unit=Unit.MS),
    0,
    "The maximum random reduction of `segment.ms`, so that not all segments are rolled at once.",
    unsupported_reason="segments are rolled without jitter",
)
SEGMENT_INDEX_BYTES = topic_setting(
    "segment.index.bytes",
    integer(4, unit=Unit.BYTES),
    10 << 20,
    "The maximum size of a segment's index before a new segment is rolled.",
    broker="log.index.size.max.bytes",
)
INDEX_INTERVAL_BYTES = topic_setting(
    "index.interval.bytes",
    integer(0, unit=Unit.BYTES),
    4096,
    "The bytes of a log between two entries of its indexes.",
    broker="log.index.interval.bytes",
)
PREALLOCATE = topic_setting(
    "preallocate",
    Boolean(),
    False,
    "Whether a new segment is allocated on disk at its full size.",
    broker="log.preallocate",
    unsupported_reason="segments grow as they are written",
)
FLUSH_MESSAGES = topic_setting(
    "flush.messages",
    long(1, unit=Unit.MESSAGES),
    LONG_MAX,
    "The number of messages after which a log is flushed to disk; by default only replication"
    " protects them.",
    broker="log.flush.interval.messages",
)
FLUSH_MS = topic_setting(
    "flush.ms",
    long(0, unit=Unit.MS),
    LONG_MAX,
    "The time after which messages are flushed to disk; by default only replication protects them.",
    broker="log.flush.interval.ms",
    coarser=(
        CoarserFallback(
            "log.flush.scheduler.interval.ms", long(0, unit=Unit.MS), factor=1, default=LONG_MAX
        ),
    ),
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = broker_setting(
    "log.flush.offset.checkpoint.interval.ms",
    integer(1, unit=Unit.MS),
    60_000,
    "How often the recovery points of logs are checkpointed, which bounds the time of a recovery.",
)
DISK_RESERVE_BYTES = broker_setting(
    "ottla.disk.reserve.bytes",
    long(0, unit=Unit.BYTES),
    256 << 20,
    "With less free space than this on a disk, its logs refuse records but still serve reads; the"
    " rest is kept for checkpoints, indexes and metadata.",
)
FILES_OPEN_MAX = broker_setting(
    "ottla.files.open.max",
    integer(16),
    512,
    "The maximum number of open segment files per log directory; the least recently used are"
    " closed.",
)
TAIL_BATCHES_MAX = broker_setting(
    "ottla.tail.batches.max",
    integer(1),
    1024,
    "The number of a log's latest batches that are located without reading an index.",
)
