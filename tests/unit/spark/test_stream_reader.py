"""The stream reader as Spark calls it, over a cluster in memory."""

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from ottla.client.arrow.spans import Span
from ottla.client.errors import Refused
from ottla.errors import ErrorCode
from ottla.protocol.messages import list_offsets
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.cluster import Cluster
from ottla.spark.failures import DataLost
from ottla.spark.offsets import BadOffsets
from ottla.spark.option_table import Mode
from ottla.spark.options import read_options
from ottla.spark.reader import SpanPartition
from ottla.spark.schema import topic_schema
from ottla.spark.stream_reader import StreamReader
from tests.sim.seams.clock import SimClock
from tests.support.client.fake_blocking import FakeBlocking
from tests.support.client.fake_cluster import FakeBroker, FakeCluster
from tests.support.spark.fake_cluster import FakeClient

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
ALL = ReadAllAvailable()


@pytest.fixture
def client() -> FakeClient:
    client = FakeClient()
    client.make("a", 10)
    return client


def reader(client: FakeClient, clock: SimClock | None = None, **given: str) -> StreamReader:
    least = {"kafka.bootstrap.servers": "x:1", "subscribe": "a"}
    options = read_options(least | given, Mode.STREAM)
    schema = topic_schema(include_headers=False)
    return StreamReader(options, schema, cluster=Cluster(options, client), clock=clock)


def spans(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Span]:
    found = stream.partitions(start, end)
    return [each.span for each in found if isinstance(each, SpanPartition)]


def test_a_batch_lies_between_two_looks(client: FakeClient) -> None:
    stream = reader(client)
    start = stream.initialOffset()
    client.held["a"].ends[0] = 25
    end = stream.latestOffset(start, ALL)
    assert spans(stream, start, end) == [Span(A0, 10, 25)]
    assert stream.reportLatestOffset() == {"a": {"0": 25}}
    assert stream.latestOffset(end, ALL) == end


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "7"}, ReadMaxRows(7)),
        ({"minOffsetsPerTrigger": "7"}, ReadMinRows(7)),
        ({"maxOffsetsPerTrigger": "9", "minOffsetsPerTrigger": "7"}, ReadMaxRows(9)),
    ],
)
def test_spark_gets_the_limit(client: FakeClient, given: dict[str, str], limit: object) -> None:
    assert reader(client, **given).getDefaultReadLimit() == limit


def test_a_limit_counts_unless_spark_wants_all(client: FakeClient) -> None:
    stream = reader(client, maxOffsetsPerTrigger="7")
    assert stream.latestOffset({"a": {"0": 0}}, ReadMaxRows(7)) == {"a": {"0": 7}}
    assert stream.latestOffset({"a": {"0": 0}}, ALL) == {"a": {"0": 10}}


def test_a_small_batch_waits_unless_spark_wants_all(client: FakeClient) -> None:
    clock = SimClock()
    stream = reader(client, clock, minOffsetsPerTrigger="5", maxTriggerDelay="1s")
    limit = stream.getDefaultReadLimit()
    start = stream.latestOffset({"a": {"0": 0}}, limit)
    client.held["a"].ends[0] = 14
    assert stream.latestOffset(start, limit) == start
    assert stream.latestOffset(start, ALL) == {"a": {"0": 14}}
    clock.advance(ms=1_000)
    assert stream.latestOffset(start, limit) == {"a": {"0": 14}}


def test_available_now_ends_at_the_offsets_of_the_start(client: FakeClient) -> None:
    stream = reader(client, minOffsetsPerTrigger="100", maxOffsetsPerTrigger="100")
    stream.prepareForTriggerAvailableNow()
    client.held["a"].ends[:] = [99, 99]
    end = stream.latestOffset({"a": {"0": 4}}, ReadMaxRows(100))
    assert end == {"a": {"0": 10}}
    assert stream.latestOffset(end, ReadMaxRows(100)) == end


def test_an_added_partition_is_read_from_the_first(client: FakeClient) -> None:
    stream = reader(client)
    start = stream.initialOffset()
    client.held["a"].ends.append(3)
    assert spans(stream, start, stream.latestOffset(start, ALL)) == [Span(A1, 0, 3)]


def test_a_recreated_topic_is_a_loss_even_if_it_is_longer(client: FakeClient) -> None:
    stream, lenient = reader(client), reader(client, failOnDataLoss="false")
    start = {"a": {"0": 10}}
    assert stream.latestOffset(start, ALL) == lenient.latestOffset(start, ALL) == start
    client.make("a", 30)
    with pytest.raises(DataLost, match="the topic of a-0 was deleted and recreated"):
        stream.latestOffset(start, ALL)
    back = lenient.latestOffset(start, ALL)
    assert back == {"a": {"0": 0}}
    assert spans(lenient, start, back) == []
    assert lenient.latestOffset(back, ALL) == {"a": {"0": 30}}


def test_a_topic_that_is_gone_is_a_loss_and_then_new(client: FakeClient) -> None:
    stream, lenient = reader(client), reader(client, failOnDataLoss="false")
    start = {"a": {"0": 10}}
    for each in (stream, lenient):
        each.latestOffset(start, ALL)
    del client.held["a"]
    with pytest.raises(DataLost, match="a-0 was deleted"):
        stream.latestOffset(start, ALL)
    assert lenient.latestOffset(start, ALL) == {}
    client.make("a", 2)
    assert spans(lenient, {}, lenient.latestOffset({}, ALL)) == [Span(A0, 0, 2)]


def test_a_batch_is_cut_the_same_whenever_it_is_planned(client: FakeClient) -> None:
    start, end = {"a": {"0": 10}}, {"a": {"0": 110, "1": 10}}
    planned = [spans(reader(client, minPartitions="4"), start, end) for _ in range(2)]
    client.make("a", 500, 500)
    planned.append(spans(reader(client, minPartitions="4"), start, end))
    assert planned[0] == planned[1] == planned[2]
    assert len(planned[0]) >= 4


def test_a_task_knows_which_topic_was_meant(client: FakeClient) -> None:
    stream = reader(client)
    end = stream.latestOffset({"a": {"0": 0}}, ALL)
    (partition,) = stream.partitions({"a": {"0": 0}}, end)
    assert isinstance(partition, SpanPartition)
    assert partition.topic_id == client.topic("a").topic_id


def test_processed_offsets_are_committed_to_the_group_once(client: FakeClient) -> None:
    stream = reader(client, groupId="g")
    start = stream.initialOffset()
    client.held["a"].ends[0] = 25
    end = stream.latestOffset(start, ALL)
    assert client.groups["g"] == {A0: 10}
    stream.latestOffset(end, ALL)
    stream.commit(end)
    stream.latestOffset(end, ALL)
    assert client.groups["g"] == {A0: 25}
    assert client.commits == 2


def test_a_group_that_refuses_does_not_stop_the_query(
    client: FakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.group_error = Refused(ErrorCode.UNKNOWN_MEMBER_ID, "offsets of group g")
    stream = reader(client, groupId="g")
    assert stream.latestOffset({"a": {"0": 4}}, ALL) == {"a": {"0": 10}}
    assert "offsets were not committed to the group g" in caplog.text


def test_a_checkpoint_of_another_source_is_refused(client: FakeClient) -> None:
    with pytest.raises(BadOffsets, match="the checkpoint belongs to another source"):
        reader(client).latestOffset({"logOffset": 3}, ALL)


def test_the_client_is_closed_with_the_query(client: FakeClient) -> None:
    reader(client).stop()
    assert client.is_closed


NAMES = ("a", "b", "c")


def asked_by(brokers: FakeCluster, api: str) -> int:
    return sum(len(broker.asked_for(api)) for broker in brokers.brokers.values())


def brokers_with_topics() -> FakeCluster:
    """Each topic has a partition with each of two brokers, which ends at offset 10."""
    brokers = FakeCluster(brokers=2)
    brokers.leaders = {name: [1, 2] for name in NAMES}

    def offsets(broker: FakeBroker) -> Any:
        def result(topic: str, number: int) -> list_offsets.PartitionResult:
            is_led = brokers.leaders[topic][number] == broker.node_id
            return list_offsets.PartitionResult(
                partition_index=number,
                error_code=0 if is_led else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                offset=10,
            )

        return lambda request, version: list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.TopicResult(
                    name=topic.name,
                    partitions=tuple(
                        result(topic.name, each.partition_index) for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    brokers.answer_everywhere("ListOffsets", offsets)
    return brokers


def stream_of(brokers: FakeCluster, **given: str) -> StreamReader:
    least = {"kafka.bootstrap.servers": "x:1", "subscribe": ",".join(NAMES)}
    options = read_options(least | given, Mode.STREAM)
    cluster = Cluster(options, FakeBlocking(brokers).client())
    return StreamReader(options, topic_schema(include_headers=False), cluster=cluster)


def test_a_batch_over_many_topics_asks_for_metadata_once() -> None:
    brokers = brokers_with_topics()
    stream = stream_of(brokers)
    offsets = stream.initialOffset()
    assert asked_by(brokers, "Metadata") == 1
    for batch in range(1, 4):
        offsets = stream.latestOffset(offsets, ALL)
        assert asked_by(brokers, "Metadata") == 1 + batch
    assert offsets == {name: {"0": 10, "1": 10} for name in NAMES}


def test_a_batch_asks_again_where_a_leader_turns_out_to_be_another() -> None:
    brokers = brokers_with_topics()
    stream = stream_of(brokers)
    offsets = stream.initialOffset()
    brokers.leaders["b"] = [2, 1]
    assert stream.latestOffset(offsets, ALL) == offsets
    assert asked_by(brokers, "Metadata") == 3
    assert stream.latestOffset(offsets, ALL) == offsets
    assert asked_by(brokers, "Metadata") == 4


def test_a_batch_sees_partitions_that_were_added_since_the_last_one() -> None:
    brokers = brokers_with_topics()
    stream = stream_of(brokers)
    offsets = stream.initialOffset()
    brokers.leaders["b"] = [1, 2, 1]
    assert stream.latestOffset(offsets, ALL) == offsets | {"b": {"0": 10, "1": 10, "2": 10}}
