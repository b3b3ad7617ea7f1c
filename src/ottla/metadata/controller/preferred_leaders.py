"""Gives leadership back to preferred replicas, the first of each partition. Does no I/O."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from ottla.metadata.controller.partition_update import Brokers, successor
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.metadata.values import BrokerState, Incarnation, PartitionId


class LeaderBalance:
    """How many partitions each broker should lead as the preferred replica, and which it does not.

    As in Kafka: a broker's imbalance is the share of these partitions that it does not lead, for
    whatever reason.
    """

    def __init__(self) -> None:
        self._preferred = Counter[int]()
        self._led_elsewhere = Counter[int]()
        # The partitions that each broker can take over at once.
        self._due: dict[int, list[PartitionId]] = {}

    def add_topic(self, image: Image, name: str) -> int:
        """Counts the partitions of a topic, and returns their number."""
        topic = image.topic(name)
        partitions = () if topic is None else image.partitions(topic.topic_id)
        for partition in partitions:
            preferred = partition.replicas[0]
            self._preferred[preferred] += 1
            if partition.leader is not None and partition.leader.broker_id == preferred:
                continue
            self._led_elsewhere[preferred] += 1
            if _due(partition, image.brokers) is not None:
                where = PartitionId(partition.topic_id, partition.index)
                self._due.setdefault(preferred, []).append(where)
        return len(partitions)

    def due(self, imbalance_percent_max: int) -> list[PartitionId]:
        """The partitions that the brokers with a larger imbalance are to lead again."""
        return [
            where
            for broker_id, partitions in sorted(self._due.items())
            if 100 * self._led_elsewhere[broker_id]
            > imbalance_percent_max * self._preferred[broker_id]
            for where in partitions
        ]


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
