"""A probe for each setting, which observes its effect on a broker.

An observation has one value with the setting's default, and another with the value given here.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.protocol.compression import Codec
from tests.support.broker import (
    compaction_observations,
    group_observations,
    observations,
    transaction_observations,
)
from tests.support.broker.compaction_observations import COMPACTED
from tests.support.broker.observations import DAY_MS, HOUR_MS, MINUTE_MS, World
from tests.support.broker.simulated_broker import HOST, PORT

OFTEN_CHECKPOINTED = {"log.flush.offset.checkpoint.interval.ms": "1000"}
OFTEN_RETAINED = {"log.retention.check.interval.ms": "1000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How the effect of one setting is observed."""

    # By each of the broker's names for it another value than the default, all to the same effect.
    # A topic's own name for it takes the value of the first.
    values: Mapping[str, str]
    look: Callable[[World], Awaitable[object]]
    by_default: object
    changed: object
    # What else the broker is started with, for there to be something to see.
    beside: Mapping[str, str] = field(default_factory=dict)


NONE = ErrorCode.NONE

# By the name that a topic has for it.
TOPIC_PROBES: dict[str, Probe] = {
    "max.message.bytes": Probe(
        values={"message.max.bytes": "300"},
        look=observations.large_batch,
        by_default=NONE,
        changed=ErrorCode.MESSAGE_TOO_LARGE,
    ),
    "compression.type": Probe(
        values={"compression.type": "zstd"},
        look=observations.codec_on_disk,
        by_default=Codec.NONE,
        changed=Codec.ZSTD,
    ),
    "compression.gzip.level": Probe(
        values={"compression.gzip.level": "1"},
        look=observations.compressed_bytes,
        by_default=observations.bytes_of_numbers(Codec.GZIP, 6),
        changed=observations.bytes_of_numbers(Codec.GZIP, 1),
        beside={"compression.type": "gzip"},
    ),
    "compression.lz4.level": Probe(
        values={"compression.lz4.level": "1"},
        look=observations.compressed_bytes,
        by_default=observations.bytes_of_numbers(Codec.LZ4, 9),
        changed=observations.bytes_of_numbers(Codec.LZ4, 1),
        beside={"compression.type": "lz4"},
    ),
    "compression.zstd.level": Probe(
        values={"compression.zstd.level": "19"},
        look=observations.compressed_bytes,
        by_default=observations.bytes_of_numbers(Codec.ZSTD, 3),
        changed=observations.bytes_of_numbers(Codec.ZSTD, 19),
        beside={"compression.type": "zstd"},
    ),
    "message.timestamp.type": Probe(
        values={"log.message.timestamp.type": "LogAppendTime"},
        look=observations.time_of_append,
        by_default=False,
        changed=True,
    ),
    "message.timestamp.before.max.ms": Probe(
        values={"log.message.timestamp.before.max.ms": str(HOUR_MS)},
        look=observations.old_record,
        by_default=NONE,
        changed=ErrorCode.INVALID_TIMESTAMP,
    ),
    "message.timestamp.after.max.ms": Probe(
        values={"log.message.timestamp.after.max.ms": str(MINUTE_MS)},
        look=observations.record_of_the_future,
        by_default=NONE,
        changed=ErrorCode.INVALID_TIMESTAMP,
    ),
    "min.insync.replicas": Probe(
        values={"min.insync.replicas": "2"},
        look=observations.min_isr_of_partitions,
        by_default=1,
        changed=2,
    ),
    "retention.ms": Probe(
        values={
            "log.retention.ms": str(DAY_MS),
            "log.retention.minutes": "60",
            "log.retention.hours": "24",
        },
        look=observations.start_after_three_days,
        by_default=0,
        changed=1,
        beside={**OFTEN_RETAINED, "log.roll.ms": "1000"},
    ),
    "retention.bytes": Probe(
        values={"log.retention.bytes": "1"},
        look=observations.start_of_three_segments,
        by_default=0,
        changed=2,
        beside={**OFTEN_RETAINED, "log.roll.ms": "1000"},
    ),
    "file.delete.delay.ms": Probe(
        values={"log.segment.delete.delay.ms": "0"},
        look=observations.files_of_a_deleted_topic,
        by_default=True,
        changed=False,
    ),
    "segment.bytes": Probe(
        values={"log.segment.bytes": str(1 << 20)},
        look=observations.segments_of_large_batches,
        by_default=1,
        changed=2,
    ),
    "segment.ms": Probe(
        values={"log.roll.ms": str(DAY_MS), "log.roll.hours": "24"},
        look=observations.segments_of_two_days,
        by_default=1,
        changed=2,
    ),
    "segment.index.bytes": Probe(
        values={"log.index.size.max.bytes": "24"},
        look=observations.segments_of_many_batches,
        by_default=1,
        changed=3,
        beside={"log.index.interval.bytes": "0"},
    ),
    "index.interval.bytes": Probe(
        values={"log.index.interval.bytes": str(1 << 30)},
        look=observations.entries_of_an_index,
        by_default=True,
        changed=False,
        beside={"log.segment.bytes": str(1 << 20)},
    ),
    "flush.messages": Probe(
        values={"log.flush.interval.messages": "1"},
        look=observations.checkpoint_after_a_while,
        by_default=0,
        changed=2,
        beside=OFTEN_CHECKPOINTED,
    ),
    "flush.ms": Probe(
        values={"log.flush.interval.ms": "1000", "log.flush.scheduler.interval.ms": "1000"},
        look=observations.checkpoint_after_a_while,
        by_default=0,
        changed=2,
        beside=OFTEN_CHECKPOINTED,
    ),
    "cleanup.policy": Probe(
        values={"log.cleanup.policy": "compact"},
        look=compaction_observations.records_of_one_key,
        by_default=4,
        changed=2,
        beside={"log.roll.ms": "1000", "log.cleaner.backoff.ms": "1000"},
    ),
    "delete.retention.ms": Probe(
        values={"log.cleaner.delete.retention.ms": "1000"},
        look=compaction_observations.tombstone_after_a_while,
        by_default=True,
        changed=False,
        beside=COMPACTED,
    ),
    "min.compaction.lag.ms": Probe(
        values={"log.cleaner.min.compaction.lag.ms": str(DAY_MS)},
        look=compaction_observations.records_of_one_key,
        by_default=2,
        changed=4,
        beside=COMPACTED,
    ),
    "max.compaction.lag.ms": Probe(
        values={"log.cleaner.max.compaction.lag.ms": "1000"},
        look=compaction_observations.records_of_one_key,
        by_default=4,
        changed=2,
        beside={**COMPACTED, "log.cleaner.min.cleanable.ratio": "1.0"},
    ),
    "min.cleanable.dirty.ratio": Probe(
        values={"log.cleaner.min.cleanable.ratio": "1.0"},
        look=compaction_observations.records_of_one_key,
        by_default=2,
        changed=4,
        beside=COMPACTED,
    ),
}

# Settings without a topic config.
BROKER_PROBES: tuple[Probe, ...] = (
    Probe(
        values={"group.consumer.assignment.interval.ms": "0"},
        look=group_observations.are_partitions_shared_out_at_once,
        by_default=False,
        changed=True,
    ),
    Probe(
        values={"log.cleaner.enable": "false"},
        look=compaction_observations.records_of_one_key,
        by_default=2,
        changed=4,
        beside=COMPACTED,
    ),
    Probe(
        values={"log.cleaner.backoff.ms": "1000"},
        look=compaction_observations.records_soon_after,
        by_default=4,
        changed=2,
        beside={"log.cleanup.policy": "compact", "log.roll.ms": "1000"},
    ),
    Probe(
        values={"log.cleaner.dedupe.buffer.size": "2000"},
        look=compaction_observations.memory_for_keys,
        by_default=128 << 20,
        changed=2000,
        beside=COMPACTED,
    ),
    Probe(
        values={"log.cleaner.io.buffer.load.factor": "0.5"},
        look=compaction_observations.load_of_the_key_map,
        by_default=0.9,
        changed=0.5,
        beside=COMPACTED,
    ),
    Probe(
        values={"log.cleaner.io.buffer.size": "2000"},
        look=compaction_observations.bytes_read_at_a_time,
        by_default=512 << 10,
        changed=2000,
        beside=COMPACTED,
    ),
    Probe(
        values={"log.cleaner.io.max.bytes.per.second": "1000.0"},
        look=compaction_observations.bytes_a_second,
        by_default=1.7976931348623157e308,
        changed=1000.0,
        beside=COMPACTED,
    ),
    Probe(
        values={"max.connections": "1"},
        look=observations.second_connection,
        by_default=True,
        changed=False,
    ),
    Probe(
        values={"max.connections.per.ip": "1"},
        look=observations.second_connection,
        by_default=True,
        changed=False,
    ),
    Probe(
        values={"connections.max.idle.ms": "1000"},
        look=observations.answer_after_silence,
        by_default=True,
        changed=False,
    ),
    Probe(
        values={"socket.request.max.bytes": "2000"},
        look=observations.answer_to_a_large_request,
        by_default=True,
        changed=False,
    ),
    Probe(
        values={"ottla.request.besides.produce.max.bytes": "2000"},
        look=observations.answer_to_a_large_question,
        by_default=True,
        changed=False,
    ),
    Probe(
        values={"ottla.request.elements.max": "10000"},
        look=observations.answer_to_a_question_of_many_names,
        by_default=True,
        changed=False,
    ),
    Probe(
        values={"ottla.request.topics.max": "2"},
        look=observations.topics_made_of_three,
        by_default=3,
        changed=2,
    ),
    Probe(
        values={"ottla.replies.unsent.max.bytes": "100000"},
        look=observations.clients_left_of_those_that_never_read,
        by_default=3,
        changed=1,
    ),
    Probe(
        values={"queued.max.request.bytes": "1000000"},
        look=observations.answer_beside_unfinished_requests,
        by_default=True,
        changed=False,
        beside={"socket.request.max.bytes": "1000000"},
    ),
    Probe(
        values={"transaction.partition.verification.enable": "false"},
        look=transaction_observations.send_without_adding,
        by_default=ErrorCode.INVALID_TXN_STATE,
        changed=NONE,
    ),
    Probe(
        values={"producer.id.expiration.ms": "1000"},
        look=observations.gap_in_a_sequence,
        by_default=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        changed=NONE,
        beside=OFTEN_RETAINED,
    ),
    Probe(
        values={"ottla.partition.producers.max": "1"},
        look=observations.gap_in_a_sequence,
        by_default=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        changed=NONE,
    ),
    Probe(
        values={"log.retention.check.interval.ms": "1000"},
        look=observations.start_after_a_while,
        by_default=0,
        changed=2,
        beside={"log.retention.ms": "1000", "log.roll.ms": "1000"},
    ),
    Probe(
        values={"log.flush.offset.checkpoint.interval.ms": "1000"},
        look=observations.checkpoint_after_a_while,
        by_default=0,
        changed=2,
        beside={"log.flush.interval.messages": "1"},
    ),
    Probe(
        values={"ottla.disk.reserve.bytes": str(2 << 30)},
        look=observations.record_on_a_disk_like_this,
        by_default=NONE,
        changed=ErrorCode.KAFKA_STORAGE_ERROR,
    ),
    Probe(
        values={"ottla.files.open.max": "16"},
        look=observations.record_for_a_log_that_cannot_be_opened,
        by_default=NONE,
        changed=ErrorCode.KAFKA_STORAGE_ERROR,
    ),
    Probe(
        values={"ottla.batch.decompressed.max.bytes": "1000"},
        look=observations.batch_that_unpacks_to_much,
        by_default=NONE,
        changed=ErrorCode.MESSAGE_TOO_LARGE,
        beside={"log.message.timestamp.before.max.ms": str(HOUR_MS)},
    ),
    Probe(
        values={"ottla.loop.stall.warn.ms": "10"},
        look=observations.warning_of_a_short_stall,
        by_default=False,
        changed=True,
    ),
    Probe(
        values={"ottla.metrics.port": "9999"},
        look=observations.metrics_elsewhere,
        by_default=False,
        changed=True,
    ),
    Probe(
        values={"ottla.metrics.host": "0.0.0.0"},
        look=observations.metrics_for_others,
        by_default=False,
        changed=True,
    ),
    Probe(
        values={"listeners": f"PLAINTEXT://127.0.0.1:{PORT}"},
        look=observations.kafka_for_others,
        by_default=True,
        changed=False,
    ),
    Probe(
        values={"advertised.listeners": "PLAINTEXT://elsewhere:77"},
        look=observations.address_of_the_broker,
        by_default=(HOST, PORT),
        changed=("elsewhere", 77),
    ),
    Probe(
        values={"node.id": "7", "broker.id": "7"},
        look=observations.number_of_the_broker,
        by_default=1,
        changed=7,
    ),
    Probe(
        values={"num.partitions": "3"},
        look=observations.partitions_of_a_new_topic,
        by_default=1,
        changed=3,
    ),
    Probe(
        values={"ottla.auto.create.request.topics.max": "2"},
        look=observations.topics_made_for_one_request,
        by_default=5,
        changed=2,
    ),
    Probe(
        values={"auto.create.topics.enable": "false"},
        look=observations.topic_that_was_only_asked_for,
        by_default=True,
        changed=False,
    ),
)
