"""Converts the settings of a topic into the rules of each part of the broker."""

from ottla.protocol.compression import Codec
from ottla.replication.replica import RetentionRules, TopicRules
from ottla.settings.table import records, retention, segments
from ottla.settings.topic import TopicConfigs
from ottla.storage.admission.rules import AdmissionRules
from ottla.storage.compaction.rules import CompactionRules
from ottla.storage.log.config import LogConfig


def topic_rules(configs: TopicConfigs) -> TopicRules:
    """The rules for admission, log, retention and compaction of a topic's partitions."""
    return TopicRules(
        admission=_admission_rules(configs),
        log=_log_config(configs),
        retention=_retention_rules(configs),
        compaction=_compaction_rules(configs),
    )


def _admission_rules(configs: TopicConfigs) -> AdmissionRules:
    timestamp_type = configs[records.MESSAGE_TIMESTAMP_TYPE]
    codec, level = _compression(configs)
    return AdmissionRules(
        message_bytes_max=configs[records.MAX_MESSAGE_BYTES],
        timestamp_before_max_ms=configs[records.MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
        timestamp_after_max_ms=configs[records.MESSAGE_TIMESTAMP_AFTER_MAX_MS],
        compacted="compact" in configs[retention.CLEANUP_POLICY],
        log_append_time=timestamp_type is records.TimestampType.LOG_APPEND_TIME,
        decompressed_bytes_max=configs[records.BATCH_DECOMPRESSED_MAX_BYTES],
        codec=codec,
        compression_level=level,
    )


def _compression(configs: TopicConfigs) -> tuple[Codec | None, int | None]:
    """The topic's compression.type as codec and level. None: as the producer sent it."""
    match configs[records.COMPRESSION_TYPE]:
        case records.CompressionType.PRODUCER:
            return None, None
        case records.CompressionType.UNCOMPRESSED:
            return Codec.NONE, None
        case records.CompressionType.SNAPPY:
            return Codec.SNAPPY, None
        case records.CompressionType.GZIP:
            level = configs[records.COMPRESSION_GZIP_LEVEL]
            return Codec.GZIP, None if level < 0 else level
        case records.CompressionType.LZ4:
            return Codec.LZ4, configs[records.COMPRESSION_LZ4_LEVEL]
        case records.CompressionType.ZSTD:
            return Codec.ZSTD, configs[records.COMPRESSION_ZSTD_LEVEL]


def _log_config(configs: TopicConfigs) -> LogConfig:
    segment_ms = configs[segments.SEGMENT_MS]
    if "compact" in configs[retention.CLEANUP_POLICY]:
        # The active segment is never compacted, so it must roll in time.
        segment_ms = min(segment_ms, configs[retention.MAX_COMPACTION_LAG_MS])
    return LogConfig(
        segment_bytes=configs[segments.SEGMENT_BYTES],
        segment_ms=segment_ms,
        segment_index_bytes=configs[segments.SEGMENT_INDEX_BYTES],
        index_interval_bytes=configs[segments.INDEX_INTERVAL_BYTES],
        flush_messages=configs[segments.FLUSH_MESSAGES],
        flush_ms=configs[segments.FLUSH_MS],
        tail_batches_max=configs[segments.TAIL_BATCHES_MAX],
        producers_max=configs[records.PARTITION_PRODUCERS_MAX],
    )


def _retention_rules(configs: TopicConfigs) -> RetentionRules:
    return RetentionRules(
        retention_ms=configs[retention.RETENTION_MS],
        retention_bytes=configs[retention.RETENTION_BYTES],
        deletes="delete" in configs[retention.CLEANUP_POLICY],
        file_delete_delay_ms=configs[retention.FILE_DELETE_DELAY_MS],
    )


def _compaction_rules(configs: TopicConfigs) -> CompactionRules:
    return CompactionRules(
        compacts="compact" in configs[retention.CLEANUP_POLICY],
        delete_retention_ms=configs[retention.DELETE_RETENTION_MS],
        min_lag_ms=configs[retention.MIN_COMPACTION_LAG_MS],
        max_lag_ms=configs[retention.MAX_COMPACTION_LAG_MS],
        min_dirty_ratio=configs[retention.MIN_CLEANABLE_DIRTY_RATIO],
    )
