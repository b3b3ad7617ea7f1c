"""Selects the replica that a consumer should read from (KIP-392). Does no I/O.

Kafka's RackAwareReplicaSelector: a replica in the consumer's rack. The leader serves the consumer
itself if it is in that rack, or if no follower there is in sync and has the offset.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ottla.metadata.records import Broker
from ottla.metadata.values import BrokerState, PartitionId
from ottla.replication.partition import Partition


class ReplicaView(NamedTuple):
    """A follower that a consumer can read from. Kafka's name for it."""

    end_offset: int
    broker_id: int
    rack: str | None


def closest_replica(
    rack: str, leader_rack: str | None, followers: Iterable[ReplicaView]
) -> int | None:
    """The follower in the consumer's rack whose log is the longest; None for the leader."""
    if not rack or rack == leader_rack:
        return None
    nearby = [follower for follower in followers if follower.rack == rack]
    return max(nearby).broker_id if nearby else None


def readable_followers(
    partition: Partition, brokers: Mapping[int, Broker], offset: int, listener: str
) -> list[ReplicaView]:
    """The followers that can serve a consumer of this listener from this offset on.

    Only followers in the ISR: a follower that lags may never catch up, and its consumers with it.
    """
    views = []
    for member in partition.isr:
        progress = partition.followers.get(member.broker_id)
        broker = brokers.get(member.broker_id)
        if (
            progress is not None
            and progress.incarnation == member
            and progress.start_offset <= offset <= progress.end_offset
            and broker is not None
            and _is_serving(broker, partition, listener)
            and broker.incarnation == member
        ):
            views.append(ReplicaView(progress.end_offset, member.broker_id, broker.rack))
    return views


def _is_serving(broker: Broker, partition: Partition, listener: str) -> bool:
    return (
        broker.state is BrokerState.UP
        and any(endpoint.listener == listener for endpoint in broker.endpoints)
        and PartitionId(partition.topic_id, partition.index) not in broker.offline
    )


class ReplicaSelection:
    """The selection for one consumer. It applies to partitions that this broker leads."""

    __slots__ = ("_brokers", "_listener", "_rack")

    def __init__(
        self, brokers: Callable[[], Mapping[int, Broker]], rack: str, listener: str
    ) -> None:
        # Called for every read: a fetch may wait for long.
        self._brokers = brokers
        self._rack = rack
        self._listener = listener

    def select(self, partition: Partition, offset: int) -> int | None:
        """The broker to read from instead of this one, if another is closer."""
        if not partition.is_leader or partition.leader is None or not self._rack:
            return None
        brokers = self._brokers()
        leader = brokers.get(partition.leader.broker_id)
        followers = readable_followers(partition, brokers, offset, self._listener)
        return closest_replica(self._rack, leader.rack if leader else None, followers)
