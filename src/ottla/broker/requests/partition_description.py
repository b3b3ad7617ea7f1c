"""A partition's leader and replicas as responses describe them."""

from collections.abc import Collection

from ottla.errors import ErrorCode
from ottla.metadata.records import Partition
from ottla.protocol.primitives import NO_BROKER

# Error code, leader id, ids of in-sync replicas, ids of offline replicas. Not a named tuple: for
# each partition of a response its construction would cost more than all other work here.
PartitionDescription = tuple[ErrorCode, int, tuple[int, ...], tuple[int, ...]]


def describe_partition(partition: Partition, present: Collection[int]) -> PartitionDescription:
    """Describes a partition. A leader that is not among the `present` brokers counts as none."""
    leader = partition.leader
    is_led = leader is not None and leader.broker_id in present
    return (
        ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        leader.broker_id if leader and is_led else NO_BROKER,
        tuple([member.broker_id for member in partition.isr]),
        tuple([each for each in partition.replicas if each not in present]),
    )
