"""The blocking client: it finds leaders and coordinators, and retries when they move."""

from typing import Any

import pytest

from ottla.client.blocking.client import BlockingClient
from ottla.client.errors import Refused, TimedOut, Unreachable
from ottla.errors import ErrorCode
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages import find_coordinator, list_offsets, offset_commit, offset_fetch
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition
from tests.support.client.fake_blocking import FakeBlocking
from tests.support.client.fake_cluster import PORT, FakeBroker, FakeCluster

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def answer_offsets(broker: FakeBroker, cluster: FakeCluster) -> Any:
    """The leader answers with its broker id as the offset, and the requested timestamp."""

    def answer(request: Any, version: int) -> list_offsets.ListOffsetsResponse:
        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.TopicResult(
                    name=topic.name,
                    partitions=tuple(
                        list_offsets.PartitionResult(
                            partition_index=each.partition_index,
                            error_code=0 if is_led(topic.name, each.partition_index) else 6,
                            offset=-1 if each.timestamp > 10**6 else broker.node_id,
                            timestamp=each.timestamp,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def is_led(topic: str, partition: int) -> bool:
        return cluster.leaders[topic][partition] == broker.node_id

    return answer


def two_brokers() -> tuple[FakeCluster, FakeBlocking, BlockingClient]:
    cluster = FakeCluster(brokers=2)
    cluster.leaders = {"orders": [1, 2]}
    cluster.answer_everywhere("ListOffsets", lambda broker: answer_offsets(broker, cluster))
    blocking = FakeBlocking(cluster)
    return cluster, blocking, blocking.client()


def test_topics_and_partitions_are_listed() -> None:
    cluster, _, client = two_brokers()
    cluster.leaders["audit"] = [1]
    assert [topic.name for topic in client.topics()] == ["audit", "orders"]
    assert client.partitions("orders") == [ORDERS_0, ORDERS_1]


def test_an_unknown_topic_is_refused_after_its_grace_period() -> None:
    _, blocking, client = two_brokers()
    with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        client.topic("nowhere")
    assert 0 < sum(blocking.pauses_ms) <= 1500


def test_each_leader_gets_a_request_for_its_partitions() -> None:
    cluster, _, client = two_brokers()
    places = {ORDERS_0: OffsetSpec.LATEST, ORDERS_1: OffsetSpec.LATEST}
    assert client.offsets(places, Isolation.READ_COMMITTED) == {ORDERS_0: 1, ORDERS_1: 2}
    for broker in cluster.brokers.values():
        [(_, request)] = broker.asked_for("ListOffsets")
        assert request.isolation_level == Isolation.READ_COMMITTED


def test_a_time_after_the_last_record_has_no_offset() -> None:
    _, _, client = two_brokers()
    assert client.offsets_for_times({ORDERS_0: 5, ORDERS_1: 10**9}) == {ORDERS_0: 1, ORDERS_1: None}


def test_a_leader_that_moved_is_found_again() -> None:
    cluster, _, client = two_brokers()
    assert client.offsets({ORDERS_0: OffsetSpec.LATEST}) == {ORDERS_0: 1}
    cluster.leaders["orders"] = [2, 2]
    assert client.offsets({ORDERS_0: OffsetSpec.LATEST}) == {ORDERS_0: 2}


def test_a_leader_that_stays_down_is_an_error_in_the_end() -> None:
    _, blocking, client = two_brokers()
    client.topic("orders")
    blocking.away = {"b2"}
    with pytest.raises(Unreachable, match="broker 2 says that it is at b2:9092"):
        client.offsets({ORDERS_1: OffsetSpec.LATEST})
    assert 50_000 < sum(blocking.pauses_ms) <= 60_000


def test_a_leader_that_does_not_answer_times_out() -> None:
    cluster, _, client = two_brokers()
    cluster.brokers[1].answers["ListOffsets"] = lambda *_: None
    with pytest.raises(TimedOut):
        client.offsets({ORDERS_0: OffsetSpec.LATEST})


def test_before_the_first_connection_an_error_is_final() -> None:
    cluster = FakeCluster()
    blocking = FakeBlocking(cluster)
    blocking.away = {"b1"}
    with pytest.raises(Unreachable, match="refused"):
        blocking.client().topics()
    assert blocking.pauses_ms == []


def test_the_next_bootstrap_address_is_used_if_one_is_down() -> None:
    _, blocking, _ = two_brokers()
    blocking.away = {"b1"}
    assert [topic.name for topic in blocking.client("b1,b2").topics()] == ["orders"]


def test_connections_are_closed_with_the_client_and_reused_before() -> None:
    _, blocking, client = two_brokers()
    with client:
        client.topics()
        client.topics()
        assert [stream.is_closed for stream in blocking.streams] == [False]
    assert [stream.is_closed for stream in blocking.streams] == [True]


def coordinate(cluster: FakeCluster, codes: list[int]) -> dict[tuple[str, int], int]:
    """Makes broker 2 the coordinator, which answers commits with these codes in order."""
    kept: dict[tuple[str, int], int] = {}

    def find(request: Any, version: int) -> find_coordinator.FindCoordinatorResponse:
        return find_coordinator.FindCoordinatorResponse(node_id=2, host="b2", port=PORT)

    def commit(request: Any, version: int) -> offset_commit.OffsetCommitResponse:
        code = codes.pop(0)
        if code == 0:
            for topic in request.topics:
                kept.update(
                    {(topic.name, p.partition_index): p.committed_offset for p in topic.partitions}
                )
        return offset_commit.OffsetCommitResponse(
            topics=tuple(
                offset_commit.TopicResult(
                    name=topic.name,
                    partitions=tuple(
                        offset_commit.PartitionResult(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def fetch(request: Any, version: int) -> offset_fetch.OffsetFetchResponse:
        return offset_fetch.OffsetFetchResponse(
            topics=tuple(
                offset_fetch.TopicResult(
                    name=topic,
                    partitions=(
                        offset_fetch.PartitionResult(
                            partition_index=partition,
                            committed_offset=offset,
                            metadata="",
                            error_code=0,
                        ),
                    ),
                )
                for (topic, partition), offset in kept.items()
            )
        )

    cluster.answer_everywhere("FindCoordinator", lambda _: find)
    cluster.brokers[2].answers |= {"OffsetCommit": commit, "OffsetFetch": fetch}
    return kept


def test_offsets_are_committed_with_the_coordinator_once_it_has_loaded() -> None:
    cluster, blocking, client = two_brokers()
    loading = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    coordinate(cluster, [loading, int(ErrorCode.NOT_COORDINATOR), 0])
    client.commit_group_offsets("readers", {ORDERS_0: 42})
    assert client.group_offsets("readers") == {ORDERS_0: 42}
    assert len(blocking.pauses_ms) == 2


def times_looked_for(cluster: FakeCluster) -> int:
    return sum(len(broker.asked_for("FindCoordinator")) for broker in cluster.brokers.values())


def test_a_coordinator_is_looked_up_once_for_many_requests() -> None:
    cluster, _, client = two_brokers()
    coordinate(cluster, [0] * 5)
    for offset in range(5):
        client.commit_group_offsets("readers", {ORDERS_0: offset})
    assert client.group_offsets("readers") == {ORDERS_0: 4}
    assert times_looked_for(cluster) == 1


def test_a_coordinator_that_moved_or_disconnected_is_looked_up_again() -> None:
    cluster, blocking, client = two_brokers()
    coordinate(cluster, [int(ErrorCode.NOT_COORDINATOR), 0, 0])
    client.commit_group_offsets("readers", {ORDERS_0: 1})
    assert times_looked_for(cluster) == 2
    for stream in blocking.streams:
        stream.is_broken = True
    client.commit_group_offsets("readers", {ORDERS_0: 2})
    assert times_looked_for(cluster) == 3


def test_a_loading_coordinator_is_not_looked_up_again() -> None:
    cluster, _, client = two_brokers()
    coordinate(cluster, [int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 0])
    client.commit_group_offsets("readers", {ORDERS_0: 1})
    assert times_looked_for(cluster) == 1


def test_a_group_with_members_refuses_commits_from_outside() -> None:
    cluster, _, client = two_brokers()
    coordinate(cluster, [int(ErrorCode.UNKNOWN_MEMBER_ID)])
    with pytest.raises(Refused, match="UNKNOWN_MEMBER_ID"):
        client.commit_group_offsets("readers", {ORDERS_0: 42})
