"""Partitions as responses describe them."""

import pytest

from ottla.broker.requests.partition_description import describe_partition
from ottla.errors import ErrorCode
from ottla.metadata.records import Partition
from ottla.metadata.values import Incarnation
from ottla.protocol.primitives import NO_BROKER, Uuid

ONE, TWO = Incarnation(1, 10), Incarnation(2, 20)


def partition(leader: Incarnation | None) -> Partition:
    return Partition(
        topic_id=Uuid(bytes(16)),
        index=0,
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
