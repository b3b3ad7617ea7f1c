"""Topics as Arrow, from our broker and from Apache Kafka: the records that other clients wrote."""

import ast
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla
from ottla.client.arrow.schema import arrow_schema
from ottla.client.arrow.spans import OffsetsGone, RecordsUnreadable, Span, SpanReader
from ottla.client.blocking.client import BlockingClient
from ottla.client.errors import Refused
from ottla.client.reading.partition_reader import GoneOffsets
from ottla.errors import ErrorCode
from ottla.protocol.compression import Codec
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition
from tests.support.forged_batches import forged
from tests.support.paths import ROOT
from tests.support.raw_produce import store_batch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WAIT_S = 120


@pytest.fixture(scope="module")
def kafka(apache_kafka: str) -> str:
    return apache_kafka


@pytest.fixture(params=["ottla", "kafka"])
def either(request: pytest.FixtureRequest) -> str:
    """The address of one broker, then of the other."""
    fixture = "servers" if request.param == "ottla" else "kafka"
    address: str = request.getfixturevalue(fixture)
    return address


def create(servers: str, partitions: int = 1, **config: str) -> str:
    name = f"read-{uuid4().hex[:12]}"
    new = NewTopic(
        name, partitions, 1, config={key.replace("_", "."): config[key] for key in config}
    )
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([new])[name].result(WAIT_S)
    # Kafka's controller is ahead of its broker.
    until(lambda: name in admin.list_topics(timeout=WAIT_S).topics)
    return name


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def producer(servers: str, **config: object) -> Producer:
    """It keeps the order also where Kafka, whose broker tells of a partition a moment before it
    takes records for it, refuses the first batch of several."""
    settings = {"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True}
    return Producer({**settings, **config})


def produce(servers: str, topic: str, values: list[bytes], **config: object) -> None:
    sender = producer(servers, **{key.replace("_", "."): value for key, value in config.items()})
    for value in values:
        sender.produce(topic, value, partition=0)
    assert sender.flush(WAIT_S) == 0


def values_of(table: pa.Table) -> list[bytes]:
    values: list[bytes] = table["value"].to_pylist()
    return values


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_come_back_as_they_were_sent(either: str, codec: str) -> None:
    topic = create(either)
    sender = producer(either, **{"compression.type": codec})
    sent: list[dict[str, Any]] = []
    for number in range(300):
        key = None if number % 3 else b"key-%d" % number
        value = None if number % 50 == 7 else b"value " * (number % 20)
        headers = [("trace", b"%d" % number), ("empty", None)] if number % 4 == 0 else None
        time_ms = 1_700_000_000_000 + number
        sender.produce(topic, value, key, partition=0, timestamp=time_ms, headers=headers)
        named = None if headers is None else [{"key": k, "value": v} for k, v in headers]
        sent.append({"key": key, "value": value, "time": time_ms, "headers": named})
    assert sender.flush(WAIT_S) == 0

    table = ottla.read_topic(topic, bootstrap_servers=either)
    table.validate(full=True)
    assert table.schema.equals(arrow_schema())
    assert table["offset"].to_pylist() == list(range(300))
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [1000 * each["time"] for each in sent]
    for name in ("key", "value", "headers"):
        assert table[name].to_pylist() == [each[name] for each in sent]
    assert set(table["topic"].to_pylist()) == {topic}
    assert set(table["partition"].to_pylist()) == {0}
    assert set(table["timestampType"].to_pylist()) == {0}


def test_every_partition_is_read_and_only_the_columns_that_are_wanted(either: str) -> None:
    topic = create(either, partitions=3)
    sender = producer(either)
    for number in range(300):
        sender.produce(topic, b"%d" % number, partition=number % 3)
    assert sender.flush(WAIT_S) == 0
    table = ottla.read_topic(topic, bootstrap_servers=either, columns=["partition", "value"])
    assert table.column_names == ["partition", "value"]
    found = zip(table["partition"].to_pylist(), values_of(table), strict=True)
    assert sorted((int(value), partition) for partition, value in found) == [
        (number, number % 3) for number in range(300)
    ]


def test_many_fetches_are_read_batch_by_batch_and_nothing_is_missed(either: str) -> None:
    topic = create(either)
    produce(either, topic, [b"%05d" % number + bytes(995) for number in range(5000)])
    with BlockingClient(either) as client:
        reader = SpanReader(
            client, columns=["offset", "value"], fetch_bytes=256 << 10, rows_max=100
        )
        batches = list(reader.read(Span(TopicPartition(topic, 0), 1234, 4321)))
    assert all(0 < batch.num_rows <= 100 for batch in batches)
    table = pa.Table.from_batches(batches, schema=reader.schema)
    assert table["offset"].to_pylist() == list(range(1234, 4321))
    assert [int(value[:5]) for value in values_of(table)] == list(range(1234, 4321))


def test_places_are_offsets_times_and_mappings(either: str) -> None:
    topic = create(either, partitions=2)
    sender = producer(either)
    for number in range(10):
        for partition in (0, 1):
            sender.produce(
                topic, b"%d" % number, partition=partition, timestamp=1000 * (number + 1)
            )
    assert sender.flush(WAIT_S) == 0

    def offsets(start: Any, end: Any) -> list[tuple[int, int]]:
        table = ottla.read_topic(
            topic, start, end, bootstrap_servers=either, columns=["partition", "offset"]
        )
        return list(zip(*table.to_pydict().values(), strict=True))

    at_three, at_five = (datetime.fromtimestamp(second, UTC) for second in (3, 5))
    late = datetime.fromtimestamp(9999, UTC)
    assert offsets(8, "latest") == [(0, 8), (0, 9), (1, 8), (1, 9)]
    assert offsets("latest", "latest") == []
    assert offsets("earliest", 1) == [(0, 0), (1, 0)]
    assert offsets(at_three, at_five) == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert offsets(late, "latest") == []
    assert offsets({0: 9, 1: 10}, late) == [(0, 9)]
    assert offsets({0: 10}, {1: 1}) == [(1, 0)]
    assert offsets(9, 1_000_000) == [(0, 9), (1, 9)]
    with pytest.raises(ValueError, match="no partition 7"):
        offsets({7: 0}, "latest")


def test_a_topic_that_is_not_there_is_refused(either: str) -> None:
    with pytest.raises(Refused) as caught:
        ottla.read_topic("nowhere", bootstrap_servers=either)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_offset_beyond_the_end_raises_offsets_gone_or_calls_on_gone(either: str) -> None:
    topic = create(either)
    produce(either, topic, [b"a", b"b"])
    partition = TopicPartition(topic, 0)
    told: list[GoneOffsets] = []
    with BlockingClient(either) as client:
        with pytest.raises(OffsetsGone, match="offsets 50 to 59 are not there"):
            list(SpanReader(client).read(Span(partition, 50, 60)))
        assert list(SpanReader(client, on_gone=told.append).read(Span(partition, 50, 60))) == []
    assert told == [GoneOffsets(partition, 50, 60)]


def test_offsets_of_a_group_are_set_and_read(either: str) -> None:
    topic, group = create(either, partitions=2), f"group-{uuid4().hex[:8]}"
    offsets = {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 7}
    with BlockingClient(either) as client:
        assert client.group_offsets(group) == {}
        client.commit_group_offsets(group, offsets)
        assert client.group_offsets(group) == offsets
        assert topic in [each.name for each in client.topics()]


def test_aborted_transactions_are_left_out_and_the_end_is_the_last_stable_offset(
    kafka: str,
) -> None:
    topic = create(kafka)
    partition = TopicPartition(topic, 0)
    writers = [
        # None is aborted for its age while this test waits for something.
        producer(
            kafka, **{"transactional.id": f"{topic}-{each}", "transaction.timeout.ms": 600_000}
        )
        for each in range(3)
    ]
    for writer in writers:
        writer.init_transactions(WAIT_S)
    kept, void, late = writers
    for writer, name in ((kept, b"kept"), (void, b"void")):
        writer.begin_transaction()
        for number in range(20):
            writer.produce(topic, name + b"-%d" % number, partition=0)
            writer.flush(WAIT_S)
    kept.commit_transaction(WAIT_S)
    void.abort_transaction(WAIT_S)
    void.begin_transaction()
    void.produce(topic, b"after", partition=0)
    void.commit_transaction(WAIT_S)
    with BlockingClient(kafka) as client:
        # That a transaction has ended is known before its partitions are told.
        until(lambda: ends(client, partition, Isolation.READ_COMMITTED) == ends(client, partition))
    late.begin_transaction()
    late.produce(topic, b"open", partition=0)
    assert late.flush(WAIT_S) == 0

    committed = ottla.read_topic(topic, bootstrap_servers=kafka, isolation="read_committed")
    assert values_of(committed) == [*(b"kept-%d" % n for n in range(20)), b"after"]
    everything = ottla.read_topic(topic, bootstrap_servers=kafka)
    assert len(values_of(everything)) == 42
    with BlockingClient(kafka) as client:
        stable = ends(client, partition, Isolation.READ_COMMITTED)
        assert stable == ends(client, partition) - 1
    late.abort_transaction(WAIT_S)


def ends(
    client: BlockingClient,
    partition: TopicPartition,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> int:
    return client.offsets({partition: OffsetSpec.LATEST}, isolation)[partition]


def test_offsets_removed_by_compaction_are_skipped(kafka: str) -> None:
    topic = create(
        kafka,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.001",
        segment_ms="100",
        min_compaction_lag_ms="0",
    )
    sender = producer(kafka)
    for number in range(200):
        sender.produce(topic, b"%d" % number, b"key-%d" % (number % 10), partition=0)
        sender.flush(WAIT_S)

    def is_compacted() -> bool:
        # A new segment frees the one before it to be cleaned.
        sender.produce(topic, b"value", b"last", partition=0)
        assert sender.flush(WAIT_S) == 0
        return ottla.read_topic(topic, bootstrap_servers=kafka, end=200).num_rows == 10

    until(is_compacted)
    table = ottla.read_topic(topic, bootstrap_servers=kafka, end=200)
    assert table["offset"].to_pylist() == list(range(190, 200))
    assert values_of(table) == [b"%d" % number for number in range(190, 200)]


def run(*arguments: str | Path) -> str:
    """The output of a separate Python process, since such libraries leave resources open."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_unreadable_batch_is_raised_or_skipped(
    servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create(servers)
    produce(servers, topic, [b"before"])
    store_batch(servers, topic, forged(b"garbage", Codec.LZ4, count=2))
    produce(servers, topic, [b"behind"])
    with pytest.raises(RecordsUnreadable, match=f"{topic}-0: the batch of offsets 1 to 2"):
        ottla.read_topic(topic, bootstrap_servers=servers)
    table = ottla.read_topic(topic, bootstrap_servers=servers, skip_unreadable=True)
    assert table["value"].to_pylist() == [b"before", b"behind"]
    assert f"{topic}-0: the batch of offsets 1 to 2 cannot be read" in caplog.text


@pytest.fixture
def twenty(servers: str) -> str:
    """A topic of twenty records in two partitions."""
    topic = create(servers, partitions=2)
    sender = producer(servers)
    for number in range(20):
        sender.produce(topic, b"%02d" % number, partition=number % 2)
    assert sender.flush(WAIT_S) == 0
    return topic


def test_the_example_does_what_it_says(servers: str, twenty: str) -> None:
    first, *rows = run(ROOT / "examples" / "read_topic.py", twenty, servers).splitlines()
    assert ast.literal_eval(first) == [
        {"partition": number, "records": 10, "bytes": 20} for number in (0, 1)
    ]
    assert [line.split()[0] for line in rows] == ["1"] * 5


def test_the_documented_ways_into_other_libraries_lead_there(servers: str, twenty: str) -> None:
    _, page = (ROOT / "docs" / "arrow.md").read_text().split("```python\n", 1)
    program = page.split("```")[0].replace('"orders"', repr(twenty))
    program = program.replace("localhost:9092", servers)
    program += "print(orders.num_rows, len(orders.to_pandas()), polars.from_arrow(orders).height)\n"
    program += "print(duckdb.sql('select count(*) from orders').fetchall())\n"
    assert run("-c", program) == "20 20 20\n[(20,)]\n"
