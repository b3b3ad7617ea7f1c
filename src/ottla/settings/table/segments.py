"""How a log lies on disk: its segments and indexes, when it is flushed, and what it may take."""

from ottla.settings.kinds import LONG_MAX, Boolean, Unit, integer, long
from ottla.settings.setting import Coarser, broker_setting, topic_setting

_HOUR_MS = 3_600_000

SEGMENT_BYTES = topic_setting(
    "segment.bytes",
    integer(1 << 20, unit=Unit.BYTES),
    1 << 30,
    "A segment that would grow beyond this is closed, and the next one begun.",
    broker="log.segment.bytes",
)
SEGMENT_MS = topic_setting(
    "segment.ms",
    long(1, unit=Unit.MS),
    168 * _HOUR_MS,
    "A segment whose records span more time than this is closed, and the next one begun.",
    broker="log.roll.ms",
    coarser=(Coarser("log.roll.hours", integer(1, unit=Unit.HOURS), _HOUR_MS, default=168),),
)
SEGMENT_JITTER_MS = topic_setting(
    "segment.jitter.ms",
    long(0, unit=Unit.MS),
    0,
    "By up to how much segments are closed before their time, so that not all are closed at once.",
    only_default="segments are closed when their time has come",
)
SEGMENT_INDEX_BYTES = topic_setting(
    "segment.index.bytes",
    integer(4, unit=Unit.BYTES),
    10 << 20,
    "A segment with an index of this size is closed, and the next one begun.",
    broker="log.index.size.max.bytes",
)
INDEX_INTERVAL_BYTES = topic_setting(
    "index.interval.bytes",
    integer(0, unit=Unit.BYTES),
    4096,
    "How much of a log lies between two entries of its indexes.",
    broker="log.index.interval.bytes",
)
PREALLOCATE = topic_setting(
    "preallocate",
    Boolean(),
    False,
    "Whether a new segment takes its full size on disk at once.",
    broker="log.preallocate",
    only_default="segments grow as they are written",
)
FLUSH_MESSAGES = topic_setting(
    "flush.messages",
    long(1, unit=Unit.MESSAGES),
    LONG_MAX,
    "After how many messages a log is synced to disk; by default only replication protects them.",
    broker="log.flush.interval.messages",
)
FLUSH_MS = topic_setting(
    "flush.ms",
    long(0, unit=Unit.MS),
    LONG_MAX,
    "After what time messages are synced to disk; by default only replication protects them.",
    broker="log.flush.interval.ms",
    coarser=(
        Coarser(
            "log.flush.scheduler.interval.ms", long(0, unit=Unit.MS), factor=1, default=LONG_MAX
        ),
    ),
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = broker_setting(
    "log.flush.offset.checkpoint.interval.ms",
    integer(1, unit=Unit.MS),
    60_000,
    "How often it is written down up to where logs are on disk, which bounds a recovery.",
)
DISK_RESERVE_BYTES = broker_setting(
    "ottla.disk.reserve.bytes",
    long(0, unit=Unit.BYTES),
    256 << 20,
    "With less than this free on a disk its logs take no records but are still read; what is left "
    "is for what must go on being written, such as checkpoints, indexes and metadata.",
)
FILES_OPEN_MAX = broker_setting(
    "ottla.files.open.max",
    integer(16),
    512,
    "How many segment files of one of the `log.dirs` are kept open; the least used are closed.",
)
TAIL_BATCHES_MAX = broker_setting(
    "ottla.tail.batches.max",
    integer(1),
    1024,
    "How many of a log's latest batches are found without reading an index.",
)
