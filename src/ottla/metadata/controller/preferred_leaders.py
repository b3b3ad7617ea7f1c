"""Gives leadership back to preferred replicas, the first of each partition. Does no I/O."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ottla.metadata.controller.partition_update import Brokers, successor
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.metadata.values import BrokerState, Incarnation, PartitionId


def preferred_leader_changes(image: Image) -> Iterator[PartitionId]:
    """The partitions that another replica leads although the preferred one is up and in sync."""
    for name in sorted(image.topic_names):
        topic = image.topic(name)
        for partition in () if topic is None else tuple(image.partitions(topic.topic_id)):
            if _due(partition, image.brokers) is not None:
                yield PartitionId(partition.topic_id, partition.index)


def preferred_leader_updates(image: Image, ids: Iterable[PartitionId]) -> list[Partition]:
    """New records of these partitions, except where the change is not due any more."""
    records: list[Partition] = []
    for topic_id, index in ids:
        partition = image.partition(topic_id, index)
        leader = None if partition is None else _due(partition, image.brokers)
        if partition is not None and leader is not None:
            records.append(successor(partition, replace(partition, leader=leader)))
    return records


def _due(partition: Partition, brokers: Brokers) -> Incarnation | None:
    """The preferred replica, if it is to lead instead of another one."""
    preferred = brokers.get(partition.replicas[0])
    if partition.leader is None or preferred is None or preferred.state is not BrokerState.UP:
        return None
    if partition.leader.broker_id == preferred.broker_id:
        return None
    return preferred.incarnation if preferred.incarnation in partition.isr else None
