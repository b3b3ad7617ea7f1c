"""A partition's leader and replicas as responses describe them."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from ottla.errors import ErrorCode
from ottla.metadata.records import Broker, Partition
from ottla.metadata.values import PartitionId
from ottla.protocol.primitives import NO_BROKER

# Error code, leader id, ids of in-sync replicas, ids of offline replicas. Not a named tuple: for
# each partition of a response its construction would cost more than all other work here.
PartitionDescription = tuple[ErrorCode, int, tuple[int, ...], tuple[int, ...]]

# By broker id, the partitions whose logs that broker cannot read or write.
OfflineLogs = Mapping[int, Collection[PartitionId]]
NO_OFFLINE_LOGS: OfflineLogs = MappingProxyType({})


def offline_logs(brokers: Iterable[Broker]) -> OfflineLogs:
    """The offline logs of these brokers."""
    return {each.broker_id: frozenset(each.offline) for each in brokers if each.offline}


def describe_partition(
    partition: Partition, present: Collection[int], offline_at: OfflineLogs = NO_OFFLINE_LOGS
) -> PartitionDescription:
    """Describes a partition. A leader that is not among the `present` brokers counts as none.

    A replica is offline if its broker is not present, or cannot use its log.
    """
    leader = partition.leader
    is_led = leader is not None and leader.broker_id in present
    offline = tuple([each for each in partition.replicas if each not in present])
    if offline_at:
        offline = _offline_replicas(partition, present, offline_at)
    return (
        ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        leader.broker_id if leader and is_led else NO_BROKER,
        tuple([member.broker_id for member in partition.isr]),
        offline,
    )


def _offline_replicas(
    partition: Partition, present: Collection[int], offline_at: OfflineLogs
) -> tuple[int, ...]:
    own_id = PartitionId(partition.topic_id, partition.index)
    return tuple(
        each
        for each in partition.replicas
        if each not in present or own_id in offline_at.get(each, ())
    )
