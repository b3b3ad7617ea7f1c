"""Batches that are wrong in some way, sent to our broker and to Apache Kafka: they answer alike."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.blocking.client import BlockingClient
from ottla.errors import ErrorCode
from ottla.protocol.batch import Record, build, read_header
from ottla.protocol.compression import Codec, compress
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.fetch import Partition as FetchPartition
from ottla.protocol.messages.fetch import Topic as FetchTopic
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition
from ottla.testing import Broker
from tests.support.forged_batches import forged, with_header
from tests.support.raw_produce import send_batch

HOUR_MS = 3_600_000
WAIT_S = 120.0
# A version that both speak, and that names topics.
FETCH_VERSION = 12
TOPICS = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "no-old-ones": {"message.timestamp.before.max.ms": str(HOUR_MS)},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "gzip": {"compression.type": "gzip"},
    "snappy": {"compression.type": "snappy"},
    "lz4": {"compression.type": "lz4"},
    "zstd": {"compression.type": "zstd"},
    "uncompressed": {"compression.type": "uncompressed"},
    "small": {"max.message.bytes": "2000", "compression.type": "uncompressed"},
}


@pytest.fixture(scope="module")
def kafka(apache_kafka: str) -> str:
    create_topics(apache_kafka)
    return apache_kafka


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with Broker() as broker:
        create_topics(broker.bootstrap_servers)
        yield broker.bootstrap_servers


def create_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(name, 1, 1, config=c) for name, c in TOPICS.items()])
    for future in made.values():
        future.result(WAIT_S)

    with BlockingClient(servers) as client:
        # Until each has a leader that knows of it.
        for name in TOPICS:
            client.offsets({TopicPartition(name, 0): OffsetSpec.LATEST})


def now_ms() -> int:
    return int(time.time() * 1000)


def rows(*records: tuple[bytes | None, int]) -> list[Record]:
    """Records of a key and of a time from now."""
    now = now_ms()
    return [Record(n, now + later, key, b"value") for n, (key, later) in enumerate(records)]


def altered(batch: bytearray, **fields: int) -> bytearray:
    header = read_header(batch)
    return with_header(header, bytes(batch[61:]), header.codec, **fields)


def keyless(codec: Codec) -> bytearray:
    return build(rows((b"k", 0), (None, 0), (b"k", 0), (None, 0)), codec=codec)


def too_new(codec: Codec) -> bytearray:
    return build(rows((b"k", 0), (b"k", 2 * HOUR_MS), (None, 0)), codec=codec)


def too_old(codec: Codec) -> bytearray:
    return build(rows((b"k", -2 * HOUR_MS), (b"k", 0), (b"k", -3 * HOUR_MS)), codec=codec)


SENT = {
    "sound": lambda: build(rows((b"k", 0), (b"k", 5))),
    "sound, compressed": lambda: build(rows((b"k", 0), (b"k", 5)), codec=Codec.LZ4),
    "keyless": lambda: keyless(Codec.NONE),
    "keyless, compressed": lambda: keyless(Codec.ZSTD),
    "too new": lambda: too_new(Codec.NONE),
    "too new, compressed": lambda: too_new(Codec.GZIP),
    "too old": lambda: too_old(Codec.NONE),
    "too old, compressed": lambda: too_old(Codec.SNAPPY),
    "a largest time that no record has": lambda: altered(
        build(rows((b"k", 0))), max_timestamp=now_ms() + 9 * HOUR_MS
    ),
    "a largest time before all records": lambda: altered(build(rows((b"k", 0))), max_timestamp=5),
    "garbage": lambda: forged(b"garbage" * 9, timestamp_ms=now_ms()),
    "no records": lambda: forged(b"", timestamp_ms=now_ms()),
    "a record too many": lambda: altered(
        build(rows((b"k", 0), (b"k", 0))), count=1, last_offset_delta=0
    ),
    "a record too few": lambda: altered(build(rows((b"k", 0))), count=2, last_offset_delta=1),
    "numbers that do not rise": lambda: forged(
        bytes(build(rows((b"k", 0)))[61:]) * 2, timestamp_ms=now_ms()
    ),
    "large when it is unfolded": lambda: build(
        [Record(0, now_ms(), b"k", bytes(5000))], codec=Codec.ZSTD
    ),
    "numbers that do not rise, compressed": lambda: forged(
        compress(Codec.GZIP, bytes(build(rows((b"k", 0)))[61:]) * 2),
        Codec.GZIP,
        timestamp_ms=now_ms(),
    ),
}
# Kafka stores records that are numbered wrongly, or fails on them: see decision 13.
MISNUMBERED = ("numbers that do not rise", "numbers that do not rise, compressed")
# Topics for which we do not unfold a batch of gzip.
NOT_LOOKED_INTO = ("plain", "stamped", "gzip")


def answer(servers: str, topic: str, batch: bytearray) -> tuple[str, list[int], object]:
    """The code, the records at fault; of a batch that was taken its codec and its largest time."""
    result = send_batch(servers, topic, batch)
    code = ErrorCode(result.error_code)
    faults = [each.batch_index for each in result.record_errors]
    if code is not ErrorCode.NONE:
        return code.name, faults, None
    with BlockingClient(servers) as client:
        leader = client.router.leader(TopicPartition(topic, 0))
        wanted = FetchPartition(
            partition=0, fetch_offset=result.base_offset, partition_max_bytes=1 << 20
        )
        fetch = FetchRequest(
            max_wait_ms=1000,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=(FetchTopic(topic=topic, partitions=(wanted,)),),
        )
        fetched: Any = leader.ask(fetch, version_max=FETCH_VERSION)
    header = read_header(fetched.responses[0].partitions[0].records)
    claims_ms = header.max_timestamp - read_header(batch).base_timestamp
    return code.name, faults, (header.codec, None if topic == "stamped" else claims_ms)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("kind", SENT)
def test_batches_are_taken_and_refused_as_by_kafka(
    kind: str, topic: str, ours: str, kafka: str
) -> None:
    batch = SENT[kind]()
    if kind in MISNUMBERED:
        is_taken = topic in NOT_LOOKED_INTO and read_header(batch).codec != Codec.NONE
        assert answer(ours, topic, batch)[0] == ("NONE" if is_taken else "INVALID_RECORD")
        return
    expected = answer(kafka, topic, batch)
    assert answer(ours, topic, batch) == expected
