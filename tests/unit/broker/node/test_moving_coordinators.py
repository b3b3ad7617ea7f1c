"""Coordinators follow the leaders of their partitions from broker to broker."""

import asyncio
from typing import Any

import pytest

from ottla.coordinators.runtime.key_hash import java_hash
from ottla.errors import ErrorCode
from ottla.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, Protocol
from tests.support.broker.cluster import BROKERS_PORT, HOSTS, Cluster, with_cluster
from tests.support.broker.cluster_producer import (
    UNREPLICATED,
    ClusterProducer,
    clients_of,
    image_of,
    key_of,
    lead,
)
from tests.support.broker.group_requests import codes, commit, committed
from tests.support.broker.simulated_broker import PORT, Client
from tests.support.broker.transactional_requests import retried, seen

NONE, NOT_COORDINATOR = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
PARTITIONS = int(UNREPLICATED["offsets_topic_num_partitions"])


async def found(client: Client, key: str, key_type: CoordinatorType) -> Any:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
    (coordinator,) = (await client.ask(request)).coordinators
    return coordinator


async def parked_join(client: Client, group_id: str) -> "asyncio.Task[Any]":
    """The first member of a group, which waits for others to join."""
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=(Protocol(name="range", metadata=b""),),
    )
    joining = asyncio.create_task(client.ask(request, 3))
    await asyncio.sleep(1)
    assert not joining.done()
    return joining


@pytest.mark.parametrize(
    ("topic", "key_type"),
    [
        (CONSUMER_OFFSETS, CoordinatorType.GROUP),
        (TRANSACTION_STATE, CoordinatorType.TRANSACTION),
    ],
)
def test_every_broker_names_the_leader_with_the_address_of_the_clients_listener(
    topic: str, key_type: CoordinatorType
) -> None:
    async def story(cluster: Cluster) -> None:
        await clients_of(cluster)
        for leader_id in (1, 2, 3):
            key = key_of(image_of(cluster, 1), topic, leader_id)
            for asked_id in (1, 2, 3):
                for port in (PORT, BROKERS_PORT):
                    client = await cluster.client(asked_id, port)
                    coordinator = await found(client, key, key_type)
                    named = (coordinator.node_id, coordinator.host, coordinator.port)
                    assert named == (leader_id, HOSTS[leader_id - 1], port)

    with_cluster(story, Cluster(3, **UNREPLICATED))


def test_without_a_leader_there_is_no_coordinator() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        await lead(cluster, CONSUMER_OFFSETS, java_hash("g") % PARTITIONS, None)
        coordinator = await found(clients[2], "g", CoordinatorType.GROUP)
        assert coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        for client in clients.values():
            assert codes(await client.ask(commit("g", "events", {0: 1}), 8)) == [NOT_COORDINATOR]

    with_cluster(story, Cluster(3, **UNREPLICATED))


def test_a_coordinator_that_moves_sends_its_waiting_members_away() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        group_id = key_of(image_of(cluster, 1), CONSUMER_OFFSETS, 1)
        joining = await parked_join(clients[1], group_id)
        await lead(cluster, CONSUMER_OFFSETS, java_hash(group_id) % PARTITIONS, 2)
        assert (await joining).error_code == NOT_COORDINATOR
        for client in clients.values():
            assert (await found(client, group_id, CoordinatorType.GROUP)).node_id == 2
        for broker_id, code in ((1, NOT_COORDINATOR), (2, NONE), (3, NOT_COORDINATOR)):
            response = await clients[broker_id].ask(commit(group_id, "events", {0: 7}), 8)
            assert codes(response) == [code]
        assert await committed(clients[2], group_id) == {("events", 0): 7}

    with_cluster(story, Cluster(3, group_initial_rebalance_delay_ms="30000", **UNREPLICATED))


def test_a_lost_session_sends_members_away_and_the_next_one_loads_the_groups() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        group_id = key_of(image_of(cluster, 2), CONSUMER_OFFSETS, 2)
        assert codes(await clients[2].ask(commit(group_id, "events", {0: 7}), 8)) == [NONE]
        joining = await parked_join(await cluster.client(2), group_id)
        # Nobody writes to the metadata log until the controller is back.
        held = cluster.hold_controller()
        await cluster.kill(1)
        cluster.expire(2)
        async with asyncio.timeout(1):
            assert (await joining).error_code == NOT_COORDINATOR
        response = await clients[2].ask(commit(group_id, "events", {0: 8}), 8)
        assert codes(response) == [NOT_COORDINATOR]
        cluster.ensemble.expire(held)
        await asyncio.sleep(2)
        assert await committed(clients[2], group_id) == {("events", 0): 7}

    with_cluster(story, Cluster(3, group_initial_rebalance_delay_ms="30000", **UNREPLICATED))


def test_a_transaction_whose_coordinator_loses_its_session_ends_all_the_same() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        producer = ClusterProducer(cluster, clients, 2)
        await producer.begin()
        await producer.write("events", b"x", partition=2)
        # The marker does not arrive before the session is lost.
        cluster.machines[0].network.partition("two", "three")
        assert await producer.end() == NONE
        await asyncio.sleep(0.5)
        cluster.expire(2)
        await asyncio.sleep(0.5)
        cluster.machines[0].network.heal()
        assert await retried(producer.init) == NONE
        assert await seen(clients[3], "events", partition=2) == [b"x"]

    with_cluster(story, Cluster(3, **UNREPLICATED))
