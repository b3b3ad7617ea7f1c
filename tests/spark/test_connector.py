"""Compared with Spark's Kafka connector: the same rows, and interchangeable checkpoints."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

import ottla
from tests.support.spark.clusters import Cluster, on, on_both
from tests.support.spark.streams import Stream
from tests.support.spark.topics import Topics, numbered, wait_until
from tests.support.spark.transactions import COMMITTED, Transactions

NOON_MS = 1_767_268_800_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# The rows of a topic, read with options in which TOPIC stands for its name.
Rows = Callable[[str, str, dict[str, str]], list[Row]]


@pytest.fixture
def rows(spark: SparkSession, servers: str) -> Rows:
    def read(source: str, topic: str, options: dict[str, str]) -> list[Row]:
        given = {name: text.replace("TOPIC", topic) for name, text in options.items()}
        reader = spark.read.format(source).option("kafka.bootstrap.servers", servers)
        frame = reader.option("subscribe", topic).options(**given).load()
        return sorted(frame.collect(), key=lambda row: (row.partition, row.offset))

    return read


@pytest.fixture
def varied(topics: Topics, topic: str) -> str:
    """A topic with all that records can have, and a part of it deleted."""
    topics.make(topic, 3)
    for number, codec in enumerate(CODECS):
        topics.send(
            topic,
            [*numbered(0, 200), b"", None],
            partition=number % 2,
            key=(None, b"", b"k")[number % 3],
            timestamp_ms=NOON_MS + 1000 * number,
            headers=[("name", b"\x00"), ("name", None), ("", b"")][:number],
            compression=codec,
        )
    topics.delete_records(topic, 1, 7)
    return topic


@on_both
@pytest.mark.parametrize(
    "options",
    [
        {"includeHeaders": "true"},
        {"minPartitions": "5"},
        {
            "startingOffsets": '{"TOPIC": {"0": 17, "1": -2, "2": -2}}',
            "maxRecordsPerPartition": "30",
        },
        {"endingOffsets": '{"TOPIC": {"0": 5, "1": -1, "2": 0}}'},
        {"startingTimestamp": str(NOON_MS + 1500), "startingOffsetsByTimestampStrategy": "latest"},
        {"endingTimestamp": str(NOON_MS + 2500)},
    ],
    ids=lambda options: ",".join(options),
)
def test_rows_are_the_connectors_rows(
    rows: Rows, connector: str, varied: str, options: dict[str, str]
) -> None:
    ours = rows("ottla", varied, options)
    assert ours
    assert ours == rows(connector, varied, options)


@pytest.fixture
def compacted(topics: Topics, topic: str) -> str:
    """A topic with the last ten of its first 200 records left, and four in between."""
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    topics.make(topic, configs=configs | {"segment.ms": "1000"})
    keys = [b"alone-%d" % n if n % 50 == 25 else b"key-%d" % (n % 10) for n in range(200)]
    records = [(key, b"%d" % number) for number, key in enumerate(keys)]
    topics.send_keyed(topic, records, timestamp_ms=NOON_MS)
    # By its time it begins another segment, which frees the one before it to be compacted.
    topics.send_keyed(topic, [(b"last", b"200")], timestamp_ms=NOON_MS + 60_000)
    wait_until(lambda: len(ottla.read_topic(topic, bootstrap_servers=topics.servers)) <= 15)
    return topic


@on_both
def test_a_compacted_topic_is_read_as_the_connector_reads_it(
    rows: Rows, connector: str, compacted: str
) -> None:
    left = [25, 75, 125, 175, *range(190, 201)]
    # Some tasks find nothing at all between their offsets, and a batch ends in a gap.
    in_pieces = {"maxRecordsPerPartition": "7"}
    cut_short = {"endingOffsets": '{"TOPIC": {"0": 160}}'}
    for options, expected in (({}, left), (in_pieces, left), (cut_short, left[:3])):
        ours = rows("ottla", compacted, options)
        assert [row.offset for row in ours] == expected
        assert ours == rows(connector, compacted, options)


@pytest.fixture
def transacted(topics: Topics, topic: str) -> str:
    """A topic with transactions that were committed, aborted, and never ended."""
    topics.make(topic)
    first = Transactions(topics.servers, topic, f"{topic}-first")
    second = Transactions(topics.servers, topic, f"{topic}-second")
    first.begin(0, 10)
    second.begin(10, 20)
    first.more(20, 25)
    second.abort()
    topics.send(topic, numbered(25, 30))
    first.commit()
    second.begin(30, 40)
    second.abort()
    first.begin(40, 50)
    topics.send(topic, numbered(50, 60))
    return topic


@on(Cluster.KAFKA)
def test_transactions_are_read_as_the_connector_reads_them(
    rows: Rows, connector: str, transacted: str
) -> None:
    committed = [*range(10), *range(20, 30)]
    in_pieces = {"maxRecordsPerPartition": "3"}
    for options, expected in (
        (COMMITTED, committed),
        (COMMITTED | in_pieces, committed),
        ({}, list(range(60))),
    ):
        ours = rows("ottla", transacted, options)
        assert [int(row.value) for row in ours] == expected
        assert ours == rows(connector, transacted, options)


@pytest.mark.parametrize(
    ("cluster", "first"),
    [(Cluster.OTTLA, "kafka"), (Cluster.KAFKA, "ottla")],
    indirect=["cluster"],
)
def test_a_checkpoint_moves_to_the_connector_and_back(
    spark: SparkSession,
    connector: str,
    servers: str,
    topics: Topics,
    topic: str,
    tmp_path: Path,
    first: str,
) -> None:
    second = {"ottla": connector, connector: "ottla"}[first]
    topics.make(topic, 2)
    stream = Stream(spark, servers, topic, tmp_path)
    for run, source in enumerate((first, second, first)):
        topics.send(topic, numbered(20 * run, 20 * run + 10), partition=0)
        topics.send(topic, numbered(20 * run + 10, 20 * run + 20), partition=1)
        batches = stream.run(source=source)
        assert sum(batch["numInputRows"] for batch in batches) == 20
    assert stream.values() == list(range(60))
