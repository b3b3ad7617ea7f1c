"""What records may be: their size, their time, their compression, and who sent them."""

from enum import StrEnum

from ottla.settings.kinds import LONG_MAX, OneOf, Unit, integer, long
from ottla.settings.setting import broker_setting, topic_setting


class TimestampType(StrEnum):
    """Whose time a record carries: its producer's, or that of its append."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class CompressionType(StrEnum):
    """How a topic's batches are compressed on disk."""

    UNCOMPRESSED = "uncompressed"
    ZSTD = "zstd"
    LZ4 = "lz4"
    SNAPPY = "snappy"
    GZIP = "gzip"
    PRODUCER = "producer"


MAX_MESSAGE_BYTES = topic_setting(
    "max.message.bytes",
    integer(0, unit=Unit.BYTES),
    1_048_588,
    "The largest batch that is taken, as it is compressed.",
    broker="message.max.bytes",
)
BATCH_DECOMPRESSED_MAX_BYTES = broker_setting(
    "ottla.batch.decompressed.max.bytes",
    integer(1, unit=Unit.BYTES),
    128 << 20,
    "The largest batch, unpacked, that is taken where the broker has to look at its records.",
)
MESSAGE_TIMESTAMP_TYPE = topic_setting(
    "message.timestamp.type",
    OneOf(TimestampType),
    TimestampType.CREATE_TIME,
    "Whether records keep their producer's time or get that of their append.",
    broker="log.message.timestamp.type",
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = topic_setting(
    "message.timestamp.before.max.ms",
    long(0, unit=Unit.MS),
    LONG_MAX,
    "How far in the past a producer's time may lie.",
    broker="log.message.timestamp.before.max.ms",
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = topic_setting(
    "message.timestamp.after.max.ms",
    long(0, unit=Unit.MS),
    3_600_000,
    "How far in the future a producer's time may lie.",
    broker="log.message.timestamp.after.max.ms",
)
COMPRESSION_TYPE = topic_setting(
    "compression.type",
    OneOf(CompressionType),
    CompressionType.PRODUCER,
    "How batches are compressed on disk; `producer` leaves them as they came.",
    broker="compression.type",
)
COMPRESSION_GZIP_LEVEL = topic_setting(
    "compression.gzip.level",
    integer(1, 9, besides=-1),
    -1,
    "How hard gzip tries, where `compression.type` asks for it.",
    broker="compression.gzip.level",
)
COMPRESSION_LZ4_LEVEL = topic_setting(
    "compression.lz4.level",
    integer(1, 17),
    9,
    "How hard lz4 tries, where `compression.type` asks for it.",
    broker="compression.lz4.level",
)
COMPRESSION_ZSTD_LEVEL = topic_setting(
    "compression.zstd.level",
    integer(-131_072, 22),
    3,
    "How hard zstd tries, where `compression.type` asks for it.",
    broker="compression.zstd.level",
)
PRODUCER_ID_EXPIRATION_MS = broker_setting(
    "producer.id.expiration.ms",
    integer(1, unit=Unit.MS),
    86_400_000,
    "How long a partition remembers an idempotent producer that sends nothing.",
    is_dynamic=True,
)
PARTITION_PRODUCERS_MAX = broker_setting(
    "ottla.partition.producers.max",
    integer(1),
    100_000,
    "How many idempotent producers a partition remembers; the longest silent is forgotten first.",
)
