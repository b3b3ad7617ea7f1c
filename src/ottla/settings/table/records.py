"""Records: size, timestamps, compression and producers."""

from enum import StrEnum

from ottla.settings.kinds import LONG_MAX, OneOf, Unit, integer, long
from ottla.settings.setting import broker_setting, topic_setting


class TimestampType(StrEnum):
    """The origin of record timestamps: the producer, or the append."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class CompressionType(StrEnum):
    """The compression of a topic's batches on disk."""

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
    "The maximum size of a batch as sent, after compression.",
    broker="message.max.bytes",
)
BATCH_DECOMPRESSED_MAX_BYTES = broker_setting(
    "ottla.batch.decompressed.max.bytes",
    integer(1, unit=Unit.BYTES),
    128 << 20,
    "The maximum decompressed size of a batch whose records the broker has to read.",
)
MESSAGE_TIMESTAMP_TYPE = topic_setting(
    "message.timestamp.type",
    OneOf(TimestampType),
    TimestampType.CREATE_TIME,
    "Whether records keep their producer's timestamp or get the time of their append.",
    broker="log.message.timestamp.type",
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = topic_setting(
    "message.timestamp.before.max.ms",
    long(0, unit=Unit.MS),
    LONG_MAX,
    "How far in the past a producer's timestamp may be.",
    broker="log.message.timestamp.before.max.ms",
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = topic_setting(
    "message.timestamp.after.max.ms",
    long(0, unit=Unit.MS),
    3_600_000,
    "How far in the future a producer's timestamp may be.",
    broker="log.message.timestamp.after.max.ms",
)
COMPRESSION_TYPE = topic_setting(
    "compression.type",
    OneOf(CompressionType),
    CompressionType.PRODUCER,
    "The compression of batches on disk; `producer` keeps the producer's.",
    broker="compression.type",
)
COMPRESSION_GZIP_LEVEL = topic_setting(
    "compression.gzip.level",
    integer(1, 9, also_allowed=-1),
    -1,
    "The compression level if `compression.type` is `gzip`.",
    broker="compression.gzip.level",
)
COMPRESSION_LZ4_LEVEL = topic_setting(
    "compression.lz4.level",
    integer(1, 17),
    9,
    "The compression level if `compression.type` is `lz4`.",
    broker="compression.lz4.level",
)
COMPRESSION_ZSTD_LEVEL = topic_setting(
    "compression.zstd.level",
    integer(-131_072, 22),
    3,
    "The compression level if `compression.type` is `zstd`.",
    broker="compression.zstd.level",
)
PRODUCER_ID_EXPIRATION_MS = broker_setting(
    "producer.id.expiration.ms",
    integer(1, unit=Unit.MS),
    86_400_000,
    "How long a partition keeps the state of an idempotent producer that sends nothing.",
    is_dynamic=True,
)
PARTITION_PRODUCERS_MAX = broker_setting(
    "ottla.partition.producers.max",
    integer(1),
    100_000,
    "The maximum number of idempotent producers whose state a partition keeps; the longest idle"
    " one is dropped first.",
)
