"""A topic as a table: columns, options and error messages."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.functions import col

from ottla.protocol.compression import Codec
from ottla.spark import read
from tests.support.forged_batches import forged
from tests.support.raw_produce import store_batch
from tests.support.spark.clusters import on_both
from tests.support.spark.topics import Topics, numbered

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
NOON_MS = 1_767_268_800_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def reader(spark: SparkSession, servers: str) -> Callable[..., DataFrameReader]:
    """Begins to read from the broker, with options."""

    def begin(**options: str) -> DataFrameReader:
        given = {"kafka.bootstrap.servers": servers} | options
        return spark.read.format("ottla").options(**given)

    return begin


Reader = Callable[..., DataFrameReader]


def values_of(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def offsets(frame: DataFrame) -> list[tuple[int, int]]:
    rows = frame.select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


def failure(frame: DataFrame) -> str:
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    return str(caught.value)


@on_both
def test_every_column_equals_the_records_field(reader: Reader, topics: Topics, topic: str) -> None:
    topics.make(topic, 2)
    headers = [("trace", b"\x00\xff"), ("empty", None), ("trace", b"")]
    topics.send(topic, [b"one"], partition=1, key=b"k", timestamp_ms=NOON_MS, headers=headers)
    topics.send(topic, [None], partition=1, timestamp_ms=NOON_MS + 1)
    first, second = reader(includeHeaders="true").load(topic).orderBy("offset").collect()
    assert (first.key, first.value) == (b"k", b"one")
    assert (second.key, second.value) == (None, None)
    assert [(row.topic, row.partition, row.offset) for row in (first, second)] == [
        (topic, 1, 0),
        (topic, 1, 1),
    ]
    assert first.timestamp.timestamp() * 1000 == NOON_MS
    assert second.timestamp.timestamp() * 1000 == NOON_MS + 1
    assert first.timestampType == 0
    assert [(each.key, each.value) for each in first.headers] == headers
    assert second.headers is None


def test_the_schema_is_the_connectors(reader: Reader) -> None:
    assert reader().load("nothing-is-asked-yet").schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )


@on_both
def test_every_codec_is_read(reader: Reader, topics: Topics, topic: str) -> None:
    topics.make(topic, len(CODECS))
    for partition, codec in enumerate(CODECS):
        values = numbered(100 * partition, 100 * partition + 100)
        topics.send(topic, values, partition=partition, compression=codec)
    assert values_of(reader(subscribe=topic).load()) == list(range(100 * len(CODECS)))


def test_only_the_requested_columns_are_fetched(
    spark: SparkSession, servers: str, reader: Reader, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 3), key=b"k")
    frame = reader(subscribe=topic).schema("offset long, value binary").load()
    assert [tuple(row) for row in frame.collect()] == [(0, b"0"), (1, b"1"), (2, b"2")]
    frame = read(spark, topic, columns=["value"], bootstrap_servers=servers)
    assert [tuple(row) for row in frame.collect()] == [(b"0",), (b"1",), (b"2",)]


def test_a_schema_that_promises_no_nulls_is_read_too(
    reader: Reader, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 3))
    frame = reader(subscribe=topic).schema("value binary not null").load()
    assert values_of(frame) == [0, 1, 2]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("value string", "the column value is binary, not string: cast it after reading"),
        ("amount int", "a topic has no column amount"),
    ],
)
def test_a_schema_that_no_topic_has_is_refused(reader: Reader, schema: str, why: str) -> None:
    assert why in failure(reader(subscribe="x").schema(schema).load())


@on_both
def test_offsets_say_where_a_batch_begins_and_ends(
    reader: Reader, topics: Topics, topic: str
) -> None:
    topics.make(topic, 2)
    for partition in (0, 1):
        topics.send(topic, numbered(0, 10), partition=partition)
    frame = reader(
        subscribe=topic,
        startingOffsets=f'{{"{topic}": {{"0": 7, "1": -2}}}}',
        endingOffsets=f'{{"{topic}": {{"0": -1, "1": 2}}}}',
    ).load()
    assert offsets(frame) == [(0, 7), (0, 8), (0, 9), (1, 0), (1, 1)]


@on_both
def test_times_say_where_a_batch_begins_and_ends(
    reader: Reader, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    for second in range(5):
        topics.send(topic, numbered(second, second + 1), timestamp_ms=NOON_MS + 1000 * second)
    by_time = {"startingTimestamp": str(NOON_MS + 500), "endingTimestamp": str(NOON_MS + 3000)}
    assert values_of(reader(subscribe=topic, **by_time).load()) == [1, 2]
    by_partition = f'{{"{topic}": {{"0": {NOON_MS + 4000}}}}}'
    frame = reader(subscribe=topic, startingOffsetsByTimestamp=by_partition).load()
    assert values_of(frame) == [4]
    late = reader(subscribe=topic, startingTimestamp=str(NOON_MS + 9000))
    assert "startingOffsetsByTimestampStrategy" in failure(late.load())
    assert values_of(late.option("startingOffsetsByTimestampStrategy", "latest").load()) == []


@on_both
def test_topics_are_found_by_a_pattern_and_partitions_by_an_assignment(
    reader: Reader, topics: Topics, topic: str
) -> None:
    for name in (f"{topic}-a", f"{topic}-b", f"other-{topic}-a"):
        topics.make(name, 2)
        topics.send(name, [name.encode()], partition=1)
    frame = reader(subscribePattern=f"{topic}-.").load()
    assert sorted(row.topic for row in frame.collect()) == [f"{topic}-a", f"{topic}-b"]
    frame = reader(assign=f'{{"{topic}-a": [0], "{topic}-b": [1]}}').load()
    assert [row.topic for row in frame.collect()] == [f"{topic}-b"]


def test_a_batch_is_split_into_the_requested_number_of_tasks(
    reader: Reader, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 100))
    frame = reader(subscribe=topic, minPartitions="3").load()
    assert frame.rdd.getNumPartitions() == 3
    assert values_of(frame) == list(range(100))
    assert reader(subscribe=topic, maxRecordsPerPartition="10").load().rdd.getNumPartitions() == 10


def test_a_topic_without_records_is_an_empty_table(
    reader: Reader, topics: Topics, topic: str
) -> None:
    topics.make(topic, 3)
    assert reader(subscribe=topic).load().count() == 0


def test_conditions_are_pushed_down_to_the_fetch(
    spark: SparkSession, servers: str, topics: Topics, topic: str
) -> None:
    topics.make(topic, 3)
    for partition in range(3):
        for start in (0, 50):
            topics.send(
                topic,
                numbered(start, start + 50),
                partition=partition,
                timestamp_ms=NOON_MS + start,
            )
    options = {"maxRecordsPerPartition": "10"}
    conditions = (
        (col("partition") == 1) & (col("offset") >= 20) & (col("offset") < 41),
        col("partition").isin(0, 2) & (col("offset") <= 5),
        (col("topic") == topic) & (col("partition") > 1),
        (col("topic") == "another"),
        col("timestamp") >= datetime.fromtimestamp((NOON_MS + 50) / 1000, UTC),
        col("timestamp") < datetime.fromtimestamp((NOON_MS + 50) / 1000, UTC),
        (col("offset") == 7) & (col("value") == b"7"),
    )
    spark.conf.set(PUSHDOWN, "true")
    try:
        frames = [
            read(spark, topic, bootstrap_servers=servers, options=options).where(condition)
            for condition in conditions
        ]
        found = [offsets(frame) for frame in frames]
        tasks = [frame.rdd.getNumPartitions() for frame in frames]
    finally:
        spark.conf.unset(PUSHDOWN)
    plain = read(spark, topic, bootstrap_servers=servers, options=options)
    assert found == [offsets(plain.where(condition)) for condition in conditions]
    assert [len(rows) for rows in found] == [21, 12, 100, 0, 150, 150, 3]
    assert tasks == [3, 2, 10, 1, 15, 30, 3]


def test_an_unknown_option_is_refused_when_the_table_is_made(reader: Reader) -> None:
    with pytest.raises(
        PySparkException, match="no option 'startingoffset'; did you mean 'startingOffsets'"
    ):
        reader(subscribe="x", startingOffset="earliest").load()


def test_malformed_offsets_are_refused_with_an_example(reader: Reader) -> None:
    with pytest.raises(PySparkException, match="startingOffsets: it is not JSON"):
        reader(subscribe="x", startingOffsets='{"x": 0').load()


@on_both
def test_a_topic_that_is_not_there_is_named(reader: Reader, servers: str) -> None:
    said = failure(reader(subscribe="not-there").load())
    assert "topic not-there: UNKNOWN_TOPIC_OR_PARTITION" in said
    assert "ottla topic create" in said
    assert servers in said


def test_partitions_that_are_not_there_are_named(
    reader: Reader, topics: Topics, topic: str
) -> None:
    topics.make(topic, 2)
    said = failure(reader(assign=f'{{"{topic}": [1, 2]}}').load())
    assert f"there is no {topic}-2" in said
    said = failure(reader(subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 0}}}}').load())
    assert f"startingOffsets lacks {topic}-1" in said
    three = f'{{"{topic}": {{"0": 0, "1": 0, "2": 0}}}}'
    said = failure(reader(subscribe=topic, startingOffsets=three).load())
    assert f"startingOffsets names {topic}-2" in said


def test_a_cluster_that_is_not_there_is_named(reader: Reader) -> None:
    frame = reader(**{"subscribe": "x", "kafka.bootstrap.servers": "127.0.0.1:1"}).load()
    assert "Is a broker running at kafka.bootstrap.servers, 127.0.0.1:1" in failure(frame)


@on_both
def test_offsets_that_are_gone_fail_a_query_unless_loss_is_allowed(
    reader: Reader, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 10))
    topics.delete_records(topic, 0, 4)
    for place, taken in ((2, [4, 5, 6, 7, 8, 9]), (50, [])):
        start = f'{{"{topic}": {{"0": {place}}}}}'
        strict = reader(subscribe=topic, startingOffsets=start)
        said = failure(strict.load())
        assert f"startingOffsets is {place} for {topic}-0, which has 4 to 10" in said
        assert "set failOnDataLoss to false" in said
        assert values_of(strict.option("failOnDataLoss", "false").load()) == taken
    assert values_of(reader(subscribe=topic).load()) == [4, 5, 6, 7, 8, 9]


def test_a_batch_that_nobody_can_read_fails_a_query_unless_loss_is_allowed(
    reader: Reader, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 3))
    store_batch(topics.servers, topic, forged(b"garbage", Codec.ZSTD, count=2))
    topics.send(topic, numbered(3, 6))
    strict = reader(subscribe=topic)
    said = failure(strict.load())
    assert f"{topic}-0: the batch of offsets 3 to 4 cannot be read" in said
    assert "set failOnDataLoss to false" in said
    assert values_of(strict.option("failOnDataLoss", "false").load()) == [0, 1, 2, 3, 4, 5]
