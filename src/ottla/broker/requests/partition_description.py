"""What a client is told of a partition: its leader and its replicas, as far as they are present."""

from collections.abc import Collection

from ottla.errors import ErrorCode
from ottla.metadata.records import Partition
from ottla.protocol.primitives import NO_BROKER

# Error code, leader's id, ids in sync, ids of replicas that are away. Not a named tuple: there is
# one for each partition of an answer, and making it would take longer than all else here.
PartitionDescription = tuple[ErrorCode, int, tuple[int, ...], tuple[int, ...]]


def describe_partition(partition: Partition, present: Collection[int]) -> PartitionDescription:
    """A leader that is not among the present brokers is none."""
    leader = partition.leader
    is_led = leader is not None and leader.broker_id in present
    return (
        ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        leader.broker_id if leader and is_led else NO_BROKER,
        tuple([member.broker_id for member in partition.isr]),
        tuple([each for each in partition.replicas if each not in present]),
    )
