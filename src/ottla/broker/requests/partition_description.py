"""What a client is told of a partition: its leader and its replicas, as far as they are present."""

from collections.abc import Collection
from typing import NamedTuple

from ottla.errors import ErrorCode
from ottla.metadata.records import Partition
from ottla.protocol.primitives import NO_BROKER


class PartitionDescription(NamedTuple):
    """Field by field as Metadata and DescribeTopicPartitions say it."""

    error_code: ErrorCode
    leader_id: int
    isr_nodes: tuple[int, ...]
    offline_replicas: tuple[int, ...]


def describe_partition(partition: Partition, present: Collection[int]) -> PartitionDescription:
    """A leader that is not among the present brokers is none."""
    leader = partition.leader
    is_led = leader is not None and leader.broker_id in present
    return PartitionDescription(
        ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        leader.broker_id if leader and is_led else NO_BROKER,
        tuple(member.broker_id for member in partition.isr),
        tuple(each for each in partition.replicas if each not in present),
    )
