"""The fetchers of a broker, one per leader. They follow the metadata log."""

from collections.abc import Callable, Coroutine
from typing import Any

from ottla.metadata.image import Image
from ottla.metadata.records import Partition as PartitionRecord
from ottla.metadata.records import TopicDeleted
from ottla.metadata.store import Entry
from ottla.metadata.values import PartitionId
from ottla.replication.following.fetcher import FetcherParts, ReplicaFetcher
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas


class ReplicaFetchers:
    """Call `start` with all replicas loaded, and `follow` after the replicas have followed."""

    def __init__(
        self,
        replicas: Replicas,
        parts: FetcherParts,
        spawn: Callable[[Coroutine[Any, Any, Any], str], object],
    ) -> None:
        self._replicas = replicas
        self._parts = parts
        self._spawn = spawn
        self._fetchers: dict[int, ReplicaFetcher] = {}
        # The leader from which each partition is fetched.
        self._leaders: dict[PartitionId, int] = {}

    def start(self) -> None:
        for replica in self._replicas:
            self._place(PartitionId(replica.partition.topic_id, replica.partition.index))

    def follow(self, image: Image, entry: Entry) -> None:  # noqa: ARG002 - a subscriber's signature
        for record in entry.records:
            match record:
                case PartitionRecord():
                    self._place(PartitionId(record.topic_id, record.index))
                case TopicDeleted():
                    for partition in [
                        each for each in self._leaders if each.topic_id == record.topic_id
                    ]:
                        self._place(partition)
                case _:
                    pass

    def start_moved(self, replica: Replica) -> None:
        """The log of a replica starts later than before."""
        partition = PartitionId(replica.partition.topic_id, replica.partition.index)
        leader_id = self._leaders.get(partition)
        if leader_id is not None:
            self._fetchers[leader_id].start_moved(partition)

    def _place(self, partition: PartitionId) -> None:
        """Has the partition fetched from its current leader, or not at all."""
        replica = self._replicas.get(*partition)
        leader_id = None if replica is None else self._leader_to_follow(replica)
        before = self._leaders.pop(partition, None)
        if before is not None and before != leader_id:
            self._fetchers[before].remove(partition)
        if replica is not None and leader_id is not None:
            self._leaders[partition] = leader_id
            self._fetcher(leader_id).put(partition, replica)

    def _fetcher(self, leader_id: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = ReplicaFetcher(leader_id, self._parts)
            self._spawn(fetcher.run(), f"fetch from broker {leader_id}")
        return fetcher

    def _leader_to_follow(self, replica: Replica) -> int | None:
        """The broker that leads the partition, if it is another one."""
        leader = replica.partition.leader
        if replica.is_unusable or leader is None:
            return None
        # Not this broker under a former epoch either.
        return None if leader.broker_id == self._parts.me.broker_id else leader.broker_id
