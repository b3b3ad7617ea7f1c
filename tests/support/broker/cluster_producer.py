"""A transactional producer of a cluster: each request goes to the broker that it is for."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from ottla.coordinators.runtime.key_hash import java_hash
from ottla.errors import ErrorCode
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.broker.cluster import Cluster
from tests.support.broker.simulated_broker import Client, create, new_topic
from tests.support.broker.transactional_requests import Producer, retried

# Partitions of one replica: the brokers lead different ones, and no replication is needed.
UNREPLICATED = {
    "transaction_state_log_replication_factor": "1",
    "offsets_topic_replication_factor": "1",
    "transaction_state_log_num_partitions": "6",
    "offsets_topic_num_partitions": "6",
}


def image_of(cluster: Cluster, broker_id: int) -> Image:
    publisher = cluster.nodes[broker_id]._publisher
    assert publisher is not None
    return publisher.image


async def clients_of(cluster: Cluster) -> dict[int, Client]:
    """A client of each broker. The topic `events` has a partition on each, and the topics of
    coordinators exist."""
    clients = {broker_id: await cluster.client(broker_id) for broker_id in sorted(cluster.nodes)}
    placed = {number: (broker_id,) for number, broker_id in enumerate(clients)}
    await create(clients[1], new_topic("events", -1, factor=-1, assignments=placed))
    for key_type in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("any",))
        found = await clients[1].ask(request)
        assert [each.error_code for each in found.coordinators] == [ErrorCode.NONE]
    return clients


def leader_of_key(image: Image, topic: str, key: str) -> int | None:
    """The broker that coordinates a key."""
    known = image.topic(topic)
    assert known is not None
    return image.leader_id(topic, java_hash(key) % len(image.partitions(known.topic_id)))


def key_of(image: Image, topic: str, broker_id: int, prefix: str = "key") -> str:
    """A key that this broker coordinates."""
    keys = (f"{prefix}-{number}" for number in range(1_000))
    return next(key for key in keys if leader_of_key(image, topic, key) == broker_id)


async def lead(
    cluster: Cluster, topic: str, index: int, broker_id: int | None, *, controller_id: int = 1
) -> None:
    """Has another broker lead a partition alone, or nobody."""
    publisher = cluster.nodes[controller_id]._publisher
    assert publisher is not None

    def decide(image: Image) -> tuple[list[Partition], None]:
        known = image.topic(topic)
        assert known is not None
        before = image.partition(known.topic_id, index)
        assert before is not None
        leader = None if broker_id is None else image.brokers[broker_id].incarnation
        replicas = (*before.replicas, *(() if leader is None else (leader.broker_id,)))
        after = replace(
            before,
            replicas=tuple(dict.fromkeys(replicas)),
            leader=leader,
            leader_epoch=before.leader_epoch + 1,
            isr=() if leader is None else (leader,),
            elr=before.isr if leader is None else (),
            partition_epoch=before.partition_epoch + 1,
        )
        return [after], None

    await publisher.commit(decide)
    await asyncio.sleep(0.1)


class ClusterProducer(Producer):
    """`coordinator_id` is the broker that coordinates its transactional id."""

    def __init__(
        self,
        cluster: Cluster,
        clients: Mapping[int, Client],
        coordinator_id: int,
        *,
        version: int = 2,
        prefix: str = "id",
    ) -> None:
        self._image = image_of(cluster, coordinator_id)
        self._clients = clients
        transactional_id = key_of(self._image, TRANSACTION_STATE, coordinator_id, prefix)
        super().__init__(clients[coordinator_id], transactional_id, version=version)

    def leader_of(self, topic: str, partition: int) -> Client:
        return self._clients[self._image.leader_id(topic, partition) or 0]

    def group_coordinator_of(self, group_id: str) -> Client:
        return self._clients[leader_of_key(self._image, CONSUMER_OFFSETS, group_id) or 0]

    async def begin(self) -> None:
        assert await retried(self.init) == ErrorCode.NONE
