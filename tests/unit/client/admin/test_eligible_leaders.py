"""The eligible leader replicas of partitions, as brokers describe them."""

from typing import Any

from ottla.client.admin.eligible_leaders import EligibleLeaders, eligible_leaders
from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    Partition,
    Topic,
)
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run
from tests.support.client.fake_cluster import FakeCluster

API = "DescribeTopicPartitions"


def partition(index: int, elr: tuple[int, ...] | None) -> Partition:
    return Partition(
        error_code=0,
        partition_index=index,
        leader_id=1,
        replica_nodes=(1, 2, 3),
        isr_nodes=(1,),
        eligible_leader_replicas=elr,
        last_known_elr=None if elr is None else (3,),
        offline_replicas=(),
    )


def topic(name: str, *partitions: Partition, code: int = 0) -> Topic:
    return Topic(error_code=code, name=name, topic_id=ZERO_UUID, partitions=partitions)


def found_by(
    answers: list[DescribeTopicPartitionsResponse] | None, *topics: str
) -> tuple[dict[TopicPartition, EligibleLeaders], list[DescribeTopicPartitionsRequest]]:
    """The result, and the requests. Without answers the brokers do not serve the API."""
    results: list[Any] = []

    async def story() -> None:
        async with FakeCluster(1) as cluster, cluster.router() as router:
            broker = cluster.brokers[1]
            if answers is not None:
                left = iter(answers)
                broker.answers[API] = lambda _request, _version: next(left)
            results.append(await eligible_leaders(router, topics))
            results.append([request for _, request in broker.asked_for(API)])

    run(story())
    return results[0], results[1]


def test_a_long_answer_is_asked_for_in_pages() -> None:
    first = DescribeTopicPartitionsResponse(
        topics=(topic("a", partition(0, (2,))),),
        next_cursor=Cursor(topic_name="a", partition_index=1),
    )
    second = DescribeTopicPartitionsResponse(
        topics=(topic("a", partition(1, None)), topic("b", partition(0, ())))
    )
    found, asked = found_by([first, second], "b", "a")
    assert found == {
        ("a", 0): ((2,), (3,)),
        ("a", 1): ((), ()),
        ("b", 0): ((), (3,)),
    }
    assert [each.name for each in asked[0].topics] == ["a", "b"]
    assert [each.cursor for each in asked] == [None, first.next_cursor]


def test_brokers_that_do_not_serve_it_and_topics_that_are_refused_give_nothing() -> None:
    assert found_by(None, "a") == ({}, [])
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = DescribeTopicPartitionsResponse(topics=(topic("a", code=code),))
    assert found_by([refused], "a")[0] == {}


def test_nothing_is_asked_about_no_topics() -> None:
    assert found_by([]) == ({}, [])
