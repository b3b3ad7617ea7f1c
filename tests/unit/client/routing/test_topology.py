"""The metadata of a cluster, response by response."""

import pytest

from ottla.client.errors import Refused
from ottla.client.routing.topology import Topology, learned
from ottla.errors import ErrorCode
from ottla.protocol.messages.metadata import Broker, MetadataResponse, Partition, Topic
from ottla.protocol.topic_partition import TopicPartition


def response(*topics: Topic, code: ErrorCode = ErrorCode.NONE) -> MetadataResponse:
    broker = Broker(node_id=1, host="b1", port=9092, rack=None)
    return MetadataResponse(brokers=(broker,), controller_id=1, topics=topics, error_code=code)


def topic(name: str, *leaders: int, code: ErrorCode = ErrorCode.NONE) -> Topic:
    return Topic(
        error_code=code,
        name=name,
        partitions=tuple(
            Partition(
                error_code=ErrorCode.NONE,
                partition_index=index,
                leader_id=leader,
                replica_nodes=(1,),
                isr_nodes=(1,),
            )
            for index, leader in enumerate(leaders)
        ),
    )


def test_a_response_replaces_only_its_own_topics() -> None:
    before = learned(Topology(), None, response(topic("kept", 1), topic("deleted", 1)))
    missing = topic("deleted", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    after = learned(before, ["deleted"], response(missing))
    assert set(after.topics) == {"kept"}
    assert after.missing == {"deleted": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert after.unknown(["kept", "deleted", "new"]) == ["new"]
    assert after.without(["kept"]).unknown(["kept"]) == ["kept"]


def test_a_response_about_all_topics_replaces_everything() -> None:
    before = learned(Topology(), ["deleted"], response(topic("deleted", 1)))
    assert set(learned(before, None, response(topic("new", 1))).topics) == {"new"}


def test_an_error_of_the_whole_response_is_raised() -> None:
    with pytest.raises(Refused) as error:
        learned(Topology(), None, response(code=ErrorCode.REBOOTSTRAP_REQUIRED))
    assert error.value.code is ErrorCode.REBOOTSTRAP_REQUIRED


def test_a_partition_without_a_known_leader_is_an_error() -> None:
    topology = learned(Topology(), None, response(topic("orders", 1, 7)))
    first, second, third = (TopicPartition("orders", number) for number in range(3))
    leader = topology.leader_of(first)
    assert leader is not None
    assert leader.node_id == 1
    assert topology.leader_of(second) is topology.leader_of(third) is None
    assert topology.why_not_led(second).code is ErrorCode.LEADER_NOT_AVAILABLE
    assert topology.why_not_led(third).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(Refused, match="LEADER_NOT_AVAILABLE"):
        topology.topic_with_leaders("orders")
