"""Coordinators whose topics have three replicas: what they have answered outlives their broker."""

import asyncio
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.offset_fetch import Group, OffsetFetchRequest, Topic
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.cluster_producer import (
    ClusterProducer,
    clients_of,
    image_of,
    key_of,
    leader_of_key,
)
from tests.support.broker.group_requests import codes, commit, committed, join
from tests.support.broker.simulated_broker import Client
from tests.support.broker.transactional_requests import retried, seen

NONE = ErrorCode.NONE
REPLICATED = {
    "offsets_topic_num_partitions": "3",
    "transaction_state_log_num_partitions": "3",
    "group_initial_rebalance_delay_ms": "0",
}


def cluster() -> Cluster:
    """With Kafka's defaults: three replicas, of which two have to be in sync."""
    return Cluster(3, **REPLICATED)


async def coordinator_of(client: Client, key: str, key_type: CoordinatorType) -> Any:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
    (found,) = (await client.ask(request)).coordinators
    return found


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_committed_offset_and_a_member_outlive_their_coordinator(loses_power: bool) -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        group_id = key_of(image_of(cluster, 1), CONSUMER_OFFSETS, 3)
        member = await join(clients[3], group_id)
        commits = commit(
            group_id,
            "events",
            {0: 7},
            member_id=member.member_id,
            generation=member.generation_id,
        )
        assert codes(await clients[3].ask(commits, 8)) == [NONE]
        await (cluster.lose(3) if loses_power else cluster.kill(3))
        await asyncio.sleep(2)
        leader_id = leader_of_key(image_of(cluster, 1), CONSUMER_OFFSETS, group_id)
        assert leader_id in (1, 2)
        for client in (clients[1], clients[2]):
            found = await coordinator_of(client, group_id, CoordinatorType.GROUP)
            assert (found.error_code, found.node_id) == (NONE, leader_id)
        assert await committed(clients[leader_id], group_id) == {("events", 0): 7}
        beat = HeartbeatRequest(
            group_id=group_id, generation_id=member.generation_id, member_id=member.member_id
        )
        assert (await clients[leader_id].ask(beat, 3)).error_code == NONE
        assert codes(await clients[leader_id].ask(commits, 8)) == [NONE]

    with_cluster(story, cluster())


@pytest.mark.parametrize("version", [1, 2])
def test_the_next_coordinator_ends_a_transaction_that_was_prepared(version: int) -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        producer = ClusterProducer(cluster, clients, 3, version=version)
        await producer.begin()
        await producer.write("events", b"x", partition=0)
        await producer.write("events", b"x", partition=1)
        # No marker arrives before the coordinator is gone.
        inter_broker = cluster.nodes[3]._inter_broker
        assert inter_broker is not None

        async def lost(*_: Any, **__: Any) -> Any:
            await asyncio.Event().wait()

        inter_broker.marker_channels.ask = lost  # type: ignore[method-assign]
        assert await producer.end() == NONE
        assert await seen(clients[2], "events", partition=1) == []
        await cluster.kill(3)
        await asyncio.sleep(2)
        transactional_id = producer.transactional_id
        leader_id = leader_of_key(image_of(cluster, 1), TRANSACTION_STATE, transactional_id)
        assert leader_id in (1, 2)
        for partition in (0, 1):
            assert await seen(clients[partition + 1], "events", partition=partition) == [b"x"]
        producer.client = clients[leader_id]
        assert await retried(producer.init) == NONE
        await producer.write("events", b"y", partition=0)
        assert await producer.end(committed=False) == NONE
        await asyncio.sleep(1)
        assert await seen(clients[1], "events", partition=0) == [b"x"]

    with_cluster(story, cluster())


async def fetched(client: Client, group_id: str) -> int:
    """The committed offset of the first partition of `events`, or the negative error code."""
    topics = (Topic(name="events", partition_indexes=(0,)),)
    request = OffsetFetchRequest(groups=(Group(group_id=group_id, topics=topics),))
    (group,) = (await client.ask(request, 9)).groups
    return -group.error_code or group.topics[0].partitions[0].committed_offset


def test_a_coordinator_cut_off_from_its_followers_answers_nothing_that_could_be_lost() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        group_id = key_of(image_of(cluster, 1), CONSUMER_OFFSETS, 3)
        assert codes(await clients[3].ask(commit(group_id, "events", {0: 7}), 8)) == [NONE]
        network = cluster.machines[0].network
        for host in ("one", "two"):
            network.partition("three", host)
        committing = asyncio.create_task(clients[3].ask(commit(group_id, "events", {0: 8}), 8))
        await asyncio.sleep(0.5)
        reading = asyncio.create_task(fetched(await cluster.client(3), group_id))
        await asyncio.sleep(1)
        assert not committing.done()
        assert not reading.done()
        # Its session ends and begins again: it leads as before, in another epoch.
        cluster.expire(3)
        await asyncio.sleep(1)
        assert codes(await committing) == [ErrorCode.NOT_COORDINATOR]
        assert await reading == -ErrorCode.NOT_COORDINATOR
        assert leader_of_key(image_of(cluster, 3), CONSUMER_OFFSETS, group_id) == 3
        # The offset was loaded, and is on no other broker.
        reading = asyncio.create_task(fetched(clients[3], group_id))
        await asyncio.sleep(1)
        assert not reading.done()
        network.heal()
        assert await reading == 8

    with_cluster(story, cluster())
