"""Transactions over several brokers: verification and markers go over connections."""

import asyncio
from typing import Any

import pytest

from ottla.broker.inter_broker.broker_channels import BrokerChannels
from ottla.errors import ErrorCode
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.cluster_producer import (
    UNREPLICATED,
    ClusterProducer,
    clients_of,
    image_of,
    key_of,
)
from tests.support.broker.group_requests import committed
from tests.support.broker.simulated_broker import Client
from tests.support.broker.transactional_requests import retried, seen

NONE = ErrorCode.NONE


def cluster_of(size: int = 3, **settings: str) -> Cluster:
    return Cluster(size, **{**UNREPLICATED, **settings})


def channels(cluster: Cluster, broker_id: int, kind: str) -> BrokerChannels:
    inter_broker = cluster.nodes[broker_id]._inter_broker
    channels: BrokerChannels = getattr(inter_broker, f"{kind}_channels")
    return channels


def recorded(target: BrokerChannels) -> list[tuple[int, Any]]:
    """The requests that are sent from now on, each with its broker."""
    sent: list[tuple[int, Any]] = []
    ask = target.ask

    async def record(broker_id: int, request: object, **options: Any) -> Any:
        sent.append((broker_id, request))
        return await ask(broker_id, request, **options)

    target.ask = record  # type: ignore[method-assign]
    return sent


async def seen_everywhere(clients: dict[int, Client]) -> list[list[bytes | None]]:
    """What read_committed consumers see in each partition of `events`."""
    return [
        await seen(client, "events", partition=number)
        for number, client in enumerate(clients.values())
    ]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transaction_ends_on_all_brokers(version: int, is_committed: bool) -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        for coordinator_id in clients:
            producer = ClusterProducer(cluster, clients, coordinator_id, version=version)
            await producer.begin()
            for partition in range(3):
                await producer.write("events", b"%d" % coordinator_id, partition=partition)
            assert await producer.end(is_committed) == NONE
        await asyncio.sleep(0.1)
        expected = [b"1", b"2", b"3"] if is_committed else []
        assert await seen_everywhere(clients) == [expected] * 3

    with_cluster(story, cluster_of())


def test_a_partition_that_was_not_added_is_refused_by_the_coordinator_elsewhere() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        producer = ClusterProducer(cluster, clients, 3, version=1)
        await producer.begin()
        assert await producer.add("events", 1) == NONE
        # Produce v9 knows no other code for it.
        assert await producer.send("events", b"x", partition=0) == ErrorCode.INVALID_TXN_STATE
        assert await producer.send("events", b"y", partition=1) == NONE

    with_cluster(story, cluster_of())


def test_offsets_of_a_transaction_are_verified_and_committed_across_brokers() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        group_id = key_of(image_of(cluster, 2), CONSUMER_OFFSETS, 2)
        for version, coordinator_id in ((1, 1), (2, 3)):
            producer = ClusterProducer(cluster, clients, coordinator_id, version=version)
            await producer.begin()
            offset = 10 * version
            assert await producer.commit_offsets(group_id, "events", {0: offset}) == [NONE]
            assert await producer.end() == NONE
            await asyncio.sleep(0.1)
            assert await committed(clients[2], group_id) == {("events", 0): offset}

    with_cluster(story, cluster_of())


def test_requests_to_a_broker_that_is_not_the_coordinator_are_refused() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        producer = ClusterProducer(cluster, clients, 1, version=1)
        await producer.begin()
        producer.client = clients[2]
        code = ErrorCode.NOT_COORDINATOR
        assert await producer.init() == code
        assert await producer.add("events", 0) == code
        assert await producer.add_offsets("g") == code
        assert await producer.end() == code

    with_cluster(story, cluster_of())


def test_markers_of_many_transactions_share_a_request() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        producers = [
            ClusterProducer(cluster, clients, 1, prefix=f"p{number}") for number in range(10)
        ]
        for producer in producers:
            await producer.begin()
            await producer.write("events", b"x", partition=1)
        sent = recorded(channels(cluster, 1, "marker"))
        # The answer to the first request takes a while.
        cluster.machines[0].network.block("two", "one")
        for producer in producers:
            assert await producer.end() == NONE
        await asyncio.sleep(0.5)
        assert len(sent) == 1
        cluster.machines[0].network.heal()
        await asyncio.sleep(0.5)
        assert [broker_id for broker_id, _ in sent] == [2, 2]
        requests: list[WriteTxnMarkersRequest] = [request for _, request in sent]
        assert [len(request.markers) for request in requests] == [1, 9]
        assert {marker.transaction_version for marker in requests[1].markers} == {2}
        assert await seen(clients[2], "events", partition=1) == [b"x"] * 10

    with_cluster(story, cluster_of())


def test_questions_of_many_produces_share_a_request() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        producers = [
            ClusterProducer(
                cluster, {**clients, 2: await cluster.client(2)}, 1, prefix=f"p{number}"
            )
            for number in range(5)
        ]
        for producer in producers:
            await producer.begin()
        sent = recorded(channels(cluster, 2, "verification"))
        cluster.machines[0].network.block("one", "two")
        sending = [
            asyncio.create_task(producer.send("events", b"x", partition=1))
            for producer in producers
        ]
        await asyncio.sleep(0.5)
        cluster.machines[0].network.heal()
        assert [await each for each in sending] == [NONE] * 5
        requests: list[AddPartitionsToTxnRequest] = [request for _, request in sent]
        assert [len(request.transactions) for request in requests] == [1, 4]

    with_cluster(story, cluster_of())


def test_a_coordinator_out_of_reach_is_an_error_that_producers_retry() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        producer = ClusterProducer(cluster, clients, 1)
        await producer.begin()
        cluster.machines[0].network.partition("one", "two")
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert await producer.send("events", b"x", partition=1) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert loop.time() - started < 15
        cluster.machines[0].network.heal()

        async def send() -> int:
            return await producer.send("events", b"x", partition=1)

        assert await retried(send) == NONE
        assert await producer.end() == NONE
        await asyncio.sleep(0.1)
        assert await seen(clients[2], "events", partition=1) == [b"x"]

    with_cluster(story, cluster_of())


def test_markers_are_retried_until_their_leader_is_back() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        producer = ClusterProducer(cluster, clients, 1)
        await producer.begin()
        for partition in range(3):
            await producer.write("events", b"x", partition=partition)
        await cluster.kill(3)
        assert await producer.end() == NONE
        await asyncio.sleep(5)
        # The transaction is not complete: the next one waits.
        assert await producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS
        assert await seen(clients[2], "events", partition=1) == [b"x"]
        await cluster.start(3)
        assert await retried(producer.init) == NONE
        assert await seen(await cluster.client(3), "events", partition=2) == [b"x"]

    with_cluster(story, cluster_of())


def test_a_lost_answer_to_markers_ends_the_transaction_once_for_readers() -> None:
    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        producer = ClusterProducer(cluster, clients, 1)
        await producer.begin()
        # From now on there is a connection.
        await producer.write("events", b"w", partition=1)
        assert await producer.end() == NONE
        assert await retried(producer.init) == NONE
        await producer.write("events", b"x", partition=1)
        # The request arrives, the answer does not.
        cluster.machines[0].network.block("two", "one")
        assert await producer.end() == NONE
        await asyncio.sleep(1)
        assert await seen(clients[2], "events", partition=1) == [b"w", b"x"]
        assert await producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS
        cluster.machines[0].network.heal()
        await asyncio.sleep(40)
        assert await retried(producer.init) == NONE
        await producer.write("events", b"y", partition=1)
        assert await seen(clients[2], "events", partition=1) == [b"w", b"x"]
        assert await producer.end() == NONE
        await asyncio.sleep(0.5)
        assert await seen(clients[2], "events", partition=1) == [b"w", b"x", b"y"]

    with_cluster(story, cluster_of())


def test_markers_that_arrive_late_on_a_former_connection_end_no_later_transaction() -> None:
    """Transaction version 1: the next transaction has the same producer epoch."""

    async def story(cluster: Cluster) -> None:
        clients = await clients_of(cluster)
        producer = ClusterProducer(cluster, clients, 1, version=1)
        await producer.begin()
        # From now on there is a connection.
        await producer.write("events", b"w", partition=1)
        assert await producer.end() == NONE
        await asyncio.sleep(0.5)
        shared = channels(cluster, 1, "marker")._shared[2]
        assert shared.connection is not None
        transport: Any = shared.connection._transport
        # The request is held up in the network, and its connection is given up.
        held: list[bytes] = []
        deliver = transport.writelines
        transport.writelines = held.extend
        transport.abort = lambda: None
        shared.connection.data_received = lambda data: None  # type: ignore[method-assign]
        await producer.write("events", b"x", partition=1)
        assert await producer.end() == NONE
        await asyncio.sleep(0.5)
        shared.connection.close()
        await asyncio.sleep(0.5)
        # It was sent again, on another connection.
        assert held
        assert await seen(clients[2], "events", partition=1) == [b"w", b"x"]
        await producer.write("events", b"y", partition=1)
        deliver(held)
        await asyncio.sleep(0.5)
        assert await seen(clients[2], "events", partition=1) == [b"w", b"x"]
        assert await producer.end(committed=False) == NONE
        await asyncio.sleep(0.5)
        assert await seen(clients[2], "events", partition=1) == [b"w", b"x"]

    with_cluster(story, cluster_of())
