"""Pending partitions: their leaders, their retries, their outcomes."""

import pytest

from ottla.address import Address
from ottla.client.errors import ConnectionLost, Refused
from ottla.client.routing.outcomes import PendingPartitions, unwrap
from ottla.client.routing.topology import Broker, Partition, Topic, Topology
from ottla.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.topic_partition import TopicPartition

ONE, TWO = (Broker(number, Address("host", number), None) for number in (1, 2))
FIRST, SECOND, THIRD = (TopicPartition("orders", number) for number in range(3))
LOST = ConnectionLost("it is gone")
DENIED = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "orders")


def led_by(*leaders: int) -> Topology:
    partitions = tuple(
        Partition(number, leader, 0, (1, 2), (1, 2), ()) for number, leader in enumerate(leaders)
    )
    return Topology(
        {1: ONE, 2: TWO}, topics={"orders": Topic("orders", ZERO_UUID, False, partitions)}
    )


def test_each_leader_gets_its_partitions_once() -> None:
    pending = PendingPartitions[int]([FIRST, SECOND, THIRD, FIRST])
    assert pending.by_leader(led_by(1, 2, 1)) == {ONE: [FIRST, THIRD], TWO: [SECOND]}
    assert pending.topics == {"orders"}
    assert not pending.has_every_outcome


def test_only_retriable_errors_are_retried() -> None:
    pending = PendingPartitions[int]([FIRST, SECOND, THIRD])
    pending.by_leader(led_by(1, 2, 1))
    pending.answer([FIRST, THIRD], {FIRST: 5, THIRD: DENIED})
    pending.fail([SECOND], LOST)
    assert pending.end_round() is LOST
    assert pending.by_leader(led_by(1, 1, 1)) == {ONE: [SECOND]}
    pending.answer([SECOND], {SECOND: 6})
    assert pending.end_round() is None
    assert pending.topics == set()
    assert pending.outcomes == {FIRST: 5, SECOND: 6, THIRD: DENIED}


def test_a_partition_without_a_leader_is_an_error_without_a_request() -> None:
    pending = PendingPartitions[int]([FIRST, TopicPartition("gone", 0)])
    assert pending.by_leader(led_by(-1)) == {}
    assert pending.has_every_outcome
    codes = [each.code for each in pending.outcomes.values() if isinstance(each, Refused)]
    assert codes == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_partition_missing_in_the_response_is_an_error() -> None:
    pending = PendingPartitions[int]([FIRST, SECOND])
    pending.by_leader(led_by(1, 1))
    pending.answer([FIRST, SECOND], {FIRST: 5})
    assert unwrap(pending.outcomes[FIRST]) == 5
    with pytest.raises(Refused, match="the answer lacks it"):
        unwrap(pending.outcomes[SECOND])
