"""A topic as a stream: each record once, from batch to batch and from run to run."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from ottla.testing import Broker
from tests.support.free_port import free_port
from tests.support.spark.clusters import Cluster, on_both
from tests.support.spark.streams import Stream
from tests.support.spark.topics import WAIT_S, Topics, numbered, wait_until


@pytest.fixture
def stream(spark: SparkSession, servers: str, topic: str, tmp_path: Path) -> Stream:
    return Stream(spark, servers, topic, tmp_path)


@on_both
def test_each_run_goes_on_where_the_last_one_ended(
    stream: Stream, topics: Topics, topic: str
) -> None:
    topics.make(topic, 2)
    topics.send(topic, numbered(0, 100), partition=0)
    stream.run()
    topics.send(topic, numbered(100, 200), partition=1)
    stream.run()
    stream.run()
    assert stream.values() == list(range(200))


@on_both
def test_a_limit_makes_more_batches_and_loses_nothing(
    stream: Stream, topics: Topics, topic: str
) -> None:
    topics.make(topic, 2)
    topics.send(topic, numbered(0, 90), partition=0)
    topics.send(topic, numbered(90, 100), partition=1)
    batches = stream.run(maxOffsetsPerTrigger="20", minOffsetsPerTrigger="15")
    assert [batch["numInputRows"] for batch in batches] == [20, 20, 20, 20, 20]
    assert batches[0]["endOffset"] == {topic: {"0": 18, "1": 2}}
    assert batches[0]["latestOffset"] == {topic: {"0": 90, "1": 10}}
    assert stream.values() == list(range(100))


def test_a_stream_that_starts_at_the_end_reads_new_records(
    stream: Stream, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 10))
    stream.run(startingOffsets="latest")
    topics.send(topic, numbered(10, 20))
    stream.run(startingOffsets="latest")
    assert stream.values() == list(range(10, 20))


@on_both
def test_partitions_that_are_added_while_it_runs_are_read_from_their_first_record(
    stream: Stream, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 10))
    with stream.running() as query:
        query.processAllAvailable()
        topics.grow(topic, 3)
        topics.send(topic, numbered(10, 20), partition=2)
        query.processAllAvailable()
        assert stream.values() == list(range(20))


def test_topics_that_match_later_are_read_too(
    spark: SparkSession, servers: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    options = {"kafka.bootstrap.servers": servers, "subscribePattern": f"{topic}-.*"}
    topics.make(f"{topic}-a")
    rows = spark.readStream.format("ottla").options(**options).load()
    query = rows.writeStream.format("memory").queryName("later_topics").start()
    try:
        query.processAllAvailable()
        topics.make(f"{topic}-b")
        topics.send(f"{topic}-b", numbered(0, 3))
        query.processAllAvailable()
    finally:
        query.stop()
    assert spark.table("later_topics").count() == 3


@on_both
def test_a_recreated_topic_fails_the_query(stream: Stream, topics: Topics, topic: str) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 10))
    with stream.running() as query:
        query.processAllAvailable()
        topics.delete(topic)
        topics.make(topic)
        topics.send(topic, numbered(10, 30))
        with pytest.raises(StreamingQueryException) as caught:
            query.processAllAvailable()
    assert "set failOnDataLoss to false" in str(caught.value)
    assert stream.values() == list(range(10))


@pytest.mark.parametrize(
    ("cluster", "amount"),
    [(Cluster.OTTLA, 5), (Cluster.OTTLA, 30), (Cluster.KAFKA, 30)],
    indirect=["cluster"],
)
def test_a_recreated_topic_is_read_completely_if_loss_is_allowed(
    stream: Stream, topics: Topics, topic: str, amount: int
) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 10))
    with stream.running(failOnDataLoss="false") as query:
        query.processAllAvailable()
        topics.delete(topic)
        topics.make(topic)
        topics.send(topic, numbered(10, 10 + amount))
        query.processAllAvailable()
    stream.run(failOnDataLoss="false")
    assert stream.values() == list(range(10 + amount))


@on_both
def test_records_that_retention_took_fail_the_query_unless_loss_is_allowed(
    stream: Stream, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 10))
    stream.run()
    topics.send(topic, numbered(10, 20))
    topics.delete_records(topic, 0, 15)
    with pytest.raises(
        StreamingQueryException, match=rf"offsets 10 to 14 of {topic}-0 were deleted"
    ):
        stream.run()
    stream.run(failOnDataLoss="false")
    assert stream.values() == [*range(10), *range(15, 20)]


def committed(servers: str, group: str, topic: str, partitions: int) -> list[int]:
    """The group as another client reads it."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        return [each.offset for each in consumer.committed(wanted, WAIT_S)]
    finally:
        consumer.close()


def wait_for_committed(servers: str, group: str, topic: str, offsets: list[int]) -> None:
    """Spark commits a finished batch when it plans the next one."""
    wait_until(lambda: committed(servers, group, topic, len(offsets)) == offsets)


@on_both
def test_a_group_shows_how_far_the_query_has_come(
    stream: Stream, servers: str, topics: Topics, topic: str
) -> None:
    topics.make(topic, 2)
    topics.send(topic, numbered(0, 30), partition=0)
    topics.send(topic, numbered(30, 40), partition=1)
    with stream.running(groupId=topic) as query:
        query.processAllAvailable()
        wait_for_committed(servers, topic, topic, [30, 10])
        topics.send(topic, numbered(40, 45), partition=1)
        query.processAllAvailable()
        wait_for_committed(servers, topic, topic, [30, 15])


def test_a_group_has_all_that_a_query_with_an_end_has_read(
    stream: Stream, servers: str, topics: Topics, topic: str
) -> None:
    topics.make(topic, 2)
    topics.send(topic, numbered(0, 30), partition=0)
    topics.send(topic, numbered(30, 40), partition=1)
    stream.run(groupId=topic, maxOffsetsPerTrigger="25")
    assert committed(servers, topic, topic, 2) == [30, 10]


def test_a_group_with_members_does_not_stop_the_query(
    stream: Stream, servers: str, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    topics.send(topic, numbered(0, 10))
    member = Consumer({"bootstrap.servers": servers, "group.id": topic})
    try:
        member.subscribe([topic])
        while not member.assignment():
            member.poll(0.1)
        stream.run(groupId=topic)
    finally:
        member.close()
    assert stream.values() == list(range(10))


def test_a_broker_that_goes_and_comes_back_is_waited_for(
    spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    settings = {"listeners": f"PLAINTEXT://127.0.0.1:{free_port()}"}
    with Broker(settings) as broker:
        topics = Topics(broker.bootstrap_servers)
        topics.make(topic)
        topics.send(topic, numbered(0, 10))
        stream = Stream(spark, broker.bootstrap_servers, topic, tmp_path)
        with stream.running() as query:
            query.processAllAvailable()
            broker.stop()
            assert not query.awaitTermination(2)
            broker.start()
            topics.send(topic, numbered(10, 20))
            query.processAllAvailable()
        assert stream.values() == list(range(20))


def test_a_stream_refuses_an_end(stream: Stream) -> None:
    with pytest.raises(StreamingQueryException, match="endingOffsets is for a batch"):
        stream.run(endingOffsets="latest")
