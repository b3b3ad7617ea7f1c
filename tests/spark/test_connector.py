"""Beside Spark's own Kafka connector: the same rows, and checkpoints that move both ways."""

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tests.spark.streams import Stream
from tests.spark.topics import Topics, numbered

NOON_MS = 1_767_268_800_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


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
    spark: SparkSession, connector: str, servers: str, varied: str, options: dict[str, str]
) -> None:
    def rows(source: str) -> list[Row]:
        given = {name: text.replace("TOPIC", varied) for name, text in options.items()}
        reader = spark.read.format(source).option("kafka.bootstrap.servers", servers)
        frame = reader.option("subscribe", varied).options(**given).load()
        return frame.orderBy("partition", "offset").collect()

    ours = rows("ottla")
    assert ours
    assert ours == rows(connector)


@pytest.mark.parametrize("first", ["kafka", "ottla"])
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
