"""Partitions as responses describe them."""

import pytest

from ottla.broker.requests.partition_description import describe_partition, offline_logs
from ottla.errors import ErrorCode
from ottla.metadata.records import Broker, Partition
from ottla.metadata.values import BrokerState, Incarnation, PartitionId
from ottla.protocol.primitives import NO_BROKER, Uuid

ONE, TWO = Incarnation(1, 10), Incarnation(2, 20)


def partition(leader: Incarnation | None, index: int = 0) -> Partition:
    return Partition(
        topic_id=Uuid(bytes(16)),
        index=index,
        replicas=(1, 2),
        leader=leader,
        leader_epoch=3,
        isr=(ONE, TWO),
        min_isr=1,
        partition_epoch=0,
    )


def test_a_partition_with_a_present_leader() -> None:
    assert describe_partition(partition(ONE), {1, 2}) == (ErrorCode.NONE, 1, (1, 2), ())


@pytest.mark.parametrize("leader", [None, TWO])
def test_a_leader_that_is_not_present_is_none(leader: Incarnation | None) -> None:
    described = describe_partition(partition(leader), {1})
    assert described == (ErrorCode.LEADER_NOT_AVAILABLE, NO_BROKER, (1, 2), (2,))


def broker(broker_id: int, *offline: int) -> Broker:
    """A broker that cannot use the logs of these partitions."""
    return Broker(
        broker_id=broker_id,
        epoch=1,
        inherits=None,
        endpoints=(),
        rack=None,
        host="localhost",
        state=BrokerState.UP,
        offline=tuple(PartitionId(Uuid(bytes(16)), index) for index in offline),
    )


@pytest.mark.parametrize(("index", "offline"), [(0, ()), (1, (2,)), (2, (2,))])
def test_a_replica_whose_log_is_offline_is_offline(index: int, offline: tuple[int, ...]) -> None:
    logs = offline_logs([broker(1), broker(2, 1, 2)])
    assert describe_partition(partition(ONE, index), {1, 2}, logs)[3] == offline


def test_the_log_of_one_broker_and_the_absence_of_another_count_together() -> None:
    logs = offline_logs([broker(2, 0)])
    assert describe_partition(partition(ONE), {2}, logs)[3] == (1, 2)
