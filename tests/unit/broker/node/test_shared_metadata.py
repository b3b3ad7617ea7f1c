"""Whole nodes on an external metadata store: one node, then two on one log."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.broker.node.membership import SAVE_INTERVAL_S
from ottla.broker.node.metadata_store import EMBEDDED
from ottla.broker.node.node import Node
from ottla.errors import ErrorCode
from ottla.metadata.applied_offset import MetadataWentBack
from ottla.metadata.memory import MemoryEnsemble
from ottla.metadata.store import BrokerIdTaken
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestedPartition,
    RequestedTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.storage.directory.directory_opening import WrongCluster
from tests.sim.seams.loop import run
from tests.support.broker.group_requests import codes, commit, committed, find
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.shared_metadata import SimStoreFactory
from tests.support.broker.simulated_broker import PORT, Client, Machine, create, new_topic


async def settle() -> None:
    await asyncio.sleep(2)


# --- one node ---------------------------------------------------------------------------------


def test_a_node_on_a_store_that_is_not_embedded_finds_its_records_after_a_restart() -> None:
    machine = Machine(stores=SimStoreFactory(MemoryEnsemble()))

    async def tell() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("events"))
            assert only(await client.ask(produce("events", batch(b"one")), 9)).error_code == 0
        async with machine.broker() as client:
            assert only(await client.ask(produce("events", batch(b"two")), 9)).error_code == 0
            fetched = await client.ask(fetch("events", wanted()), 12)
            assert values(only(fetched).records) == [b"one", b"two"]
        assert not machine.disk.process().is_dir("/data/__ottla_metadata-0")
        assert "possible data loss" not in machine.notes.events("warning")

    run(tell(), clock=machine.clock)


@pytest.mark.parametrize(
    ("failing", "is_embedded", "code"),
    [
        ("/a", True, ErrorCode.KAFKA_STORAGE_ERROR),
        ("/b", True, ErrorCode.NONE),
        ("/a", False, ErrorCode.NONE),
    ],
    ids=["the metadata is in it", "the metadata is in the other", "the metadata is elsewhere"],
)
def test_a_failed_log_directory_fails_the_metadata_only_if_it_holds_them(
    failing: str, is_embedded: bool, code: ErrorCode
) -> None:
    machine = Machine(stores=EMBEDDED if is_embedded else SimStoreFactory(MemoryEnsemble()))

    async def tell() -> None:
        async with machine.broker(log_dirs="/a,/b") as client:
            await create(client, new_topic("before"))
            machine.disk.faults.fail_next("rename", f"{failing}/recovery-point*")
            await client.ask(produce("before", batch(b"kept")), 9)
            await asyncio.sleep(100)
            assert "log directory offline" in machine.notes.events("error")
            assert await refusal(client, "after") == code

    run(tell(), clock=machine.clock)


# --- two nodes --------------------------------------------------------------------------------


class Pair:
    """Two brokers of one cluster. The first one to start is its controller."""

    def __init__(self) -> None:
        self.ensemble = MemoryEnsemble()
        self.stores = [SimStoreFactory(self.ensemble) for _ in range(2)]
        first = Machine(1, stores=self.stores[0])
        self.machines = [first, Machine(2, stores=self.stores[1], host="two", beside=first)]

    def node(self, number: int) -> Node:
        host = ("one", "two")[number]
        return self.machines[number].node(
            node_id=str(number + 1), advertised_listeners=f"PLAINTEXT://{host}:{PORT}"
        )

    def expire(self, number: int) -> None:
        """The ensemble expires the session of a live broker."""
        store = self.stores[number].store
        assert store is not None
        self.ensemble.expire(store)


def with_pair(story: Callable[[Pair, Client, Client], Coroutine[Any, Any, None]]) -> None:
    pair = Pair()

    async def tell() -> None:
        nodes = [pair.node(0), pair.node(1)]
        clients = []
        try:
            for node, machine in zip(nodes, pair.machines, strict=True):
                await node.start()
                clients.append(await machine.client())
            await story(pair, clients[0], clients[1])
            for node in nodes:
                assert not node.fault.done(), node.fault
        finally:
            for client in clients:
                client.close()
            for node in reversed(nodes):
                await node.stop()

    run(tell(), clock=pair.machines[0].clock)


async def controllers(client: Client) -> set[int]:
    """The controller id in each response that has one."""
    metadata = await client.ask(MetadataRequest(topics=()), 12)
    cluster = await client.ask(DescribeClusterRequest(include_cluster_authorized_operations=False))
    topic = RequestedTopic(
        topic_name="__cluster_metadata", partitions=(RequestedPartition(partition_index=0),)
    )
    quorum = await client.ask(DescribeQuorumRequest(topics=(topic,)))
    (partition,) = quorum.topics[0].partitions
    (voter,) = partition.current_voters
    (node,) = quorum.nodes
    assert len(node.listeners) == 1
    return {
        metadata.controller_id,
        cluster.controller_id,
        partition.leader_id,
        voter.replica_id,
        node.node_id,
    }


async def refusal(client: Client, name: str) -> int:
    response = await client.ask(CreateTopicsRequest(topics=(new_topic(name),)))
    (result,) = response.topics
    code: int = result.error_code
    return code


def test_both_brokers_name_the_controller_and_both_have_the_metadata_changed() -> None:
    async def story(_pair: Pair, first: Client, second: Client) -> None:
        assert await controllers(first) == await controllers(second) == {1}

        topic = new_topic("events", assignments={0: (2,)}, partitions=-1, factor=-1)
        await create(second, topic)
        await settle()
        assert await refusal(first, "events") == ErrorCode.TOPIC_ALREADY_EXISTS
        assert only(await second.ask(produce("events", batch(b"x")), 9)).error_code == 0
        fetched = await second.ask(fetch("events", wanted()), 12)
        assert values(only(fetched).records) == [b"x"]

    with_pair(story)


def test_a_controller_with_an_expired_session_is_replaced_and_still_serves_clients() -> None:
    async def story(pair: Pair, first: Client, second: Client) -> None:
        topic = new_topic("events", assignments={0: (1,)}, partitions=-1, factor=-1)
        await create(first, topic)
        pair.expire(0)
        await settle()

        assert await controllers(first) == await controllers(second) == {2}
        assert await refusal(first, "forwarded") == ErrorCode.NONE
        assert await refusal(second, "made") == ErrorCode.NONE
        assert only(await first.ask(produce("events", batch(b"x")), 9)).error_code == 0
        pair.expire(1)
        await settle()
        assert await controllers(first) == await controllers(second) == {1}
        assert await refusal(first, "again") == ErrorCode.NONE

    with_pair(story)


def test_only_the_controller_counts_itself_as_the_active_one() -> None:
    pair = Pair()

    async def story() -> None:
        nodes = [pair.node(0), pair.node(1)]
        for node in nodes:
            await node.start()
        await settle()
        assert [node.metrics.controller.active_controllers for node in nodes] == [1, 0]
        pair.expire(0)
        await settle()
        assert [node.metrics.controller.active_controllers for node in nodes] == [0, 1]
        for node in nodes:
            await node.stop()

    run(story(), clock=pair.machines[0].clock)


# --- starts that are refused ------------------------------------------------------------------


def test_a_broker_whose_id_is_taken_does_not_start_and_harms_nobody() -> None:
    async def story(pair: Pair, first: Client, _second: Client) -> None:
        impostor = Machine(
            3, stores=SimStoreFactory(pair.ensemble), host="three", beside=pair.machines[0]
        )
        with pytest.raises(BrokerIdTaken, match="broker id 1 is in use"):
            await impostor.node(node_id="1").start()
        await settle()
        await create(first, new_topic("events", assignments={0: (1,)}, partitions=-1, factor=-1))
        assert only(await first.ask(produce("events", batch(b"x")), 9)).error_code == 0

    with_pair(story)


def test_a_broker_of_another_cluster_does_not_start() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("events"))
        ensemble = MemoryEnsemble()
        await ensemble.connect().cluster_id("another")
        stranger = Machine(2, stores=SimStoreFactory(ensemble), beside=machine)
        stranger.disk = machine.disk
        with pytest.raises(WrongCluster, match="of cluster another"):
            await stranger.node().start()
        async with machine.broker() as client:
            assert only(await client.ask(produce("events", batch(b"x")), 9)).error_code == 0

    run(tell(), clock=machine.clock)


def test_a_store_that_was_restored_from_a_backup_is_not_followed() -> None:
    """Its topics are fewer: their logs would be set aside as strays."""
    ensemble = MemoryEnsemble()
    machine = Machine(stores=SimStoreFactory(ensemble))

    async def tell() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("events"))
            assert only(await client.ask(produce("events", batch(b"x")), 9)).error_code == 0
            await asyncio.sleep(2 * SAVE_INTERVAL_S)
        before = machine.disk.files().keys()
        emptied = Machine(2, stores=SimStoreFactory(MemoryEnsemble()), beside=machine)
        emptied.disk = machine.disk
        with pytest.raises(MetadataWentBack, match="restored from a backup"):
            await emptied.node().start()
        assert [path for path in before if "/events-0/" in path]
        assert {path for path in machine.disk.files() if "/events-0/" in path} == {
            path for path in before if "/events-0/" in path
        }
        async with machine.broker() as client:
            fetched = await client.ask(fetch("events", wanted()), 12)
            assert values(only(fetched).records) == [b"x"]

    run(tell(), clock=machine.clock)


def test_a_killed_broker_replaces_its_own_registration() -> None:
    """Its session has not ended yet when it starts again."""
    ensemble = MemoryEnsemble()
    stores = SimStoreFactory(ensemble)
    machine = Machine(stores=stores)

    async def tell() -> None:
        await machine.node().start()
        client = await machine.client()
        await create(client, new_topic("events"))
        assert only(await client.ask(produce("events", batch(b"x")), 9)).error_code == 0
        await kill(machine)
        assert stores.store is not None
        # Only then can there be a new controller.
        asyncio.get_running_loop().call_later(10, ensemble.expire, stores.store)
        async with machine.broker() as client:
            fetched = await client.ask(fetch("events", wanted()), 12)
            assert values(only(fetched).records) == [b"x"]
        assert "possible data loss" not in machine.notes.events("warning")

    run(tell(), clock=machine.clock)


def test_a_broker_that_loses_its_session_while_it_starts_registers_again_and_inherits() -> None:
    """No controller has seen its first registration."""
    ensemble = MemoryEnsemble()
    stores = SimStoreFactory(ensemble)
    machine = Machine(stores=stores)

    async def tell() -> None:
        await machine.node().start()
        client = await machine.client()
        await create(client, new_topic("events"))
        assert only(await client.ask(produce("events", batch(b"x")), 9)).error_code == 0
        await kill(machine)
        former, other = stores.store, ensemble.connect()
        assert former is not None
        ensemble.expire(former)
        await other.campaign()

        def expire_the_new_one() -> None:
            assert stores.store is not None
            assert stores.store is not former
            ensemble.expire(stores.store)

        loop = asyncio.get_running_loop()
        loop.call_later(5, expire_the_new_one)
        # A controller that does nothing: until it is gone nobody brings the broker up.
        loop.call_later(10, ensemble.expire, other)
        async with asyncio.timeout(60), machine.broker() as client:
            fetched = await client.ask(fetch("events", wanted()), 12)
            assert values(only(fetched).records) == [b"x"]
        warnings = machine.notes.events("warning")
        assert warnings.count("session lost") == 1
        assert "possible data loss" not in warnings

    run(tell(), clock=machine.clock)


async def kill(machine: Machine) -> None:
    """The process ends. Its session does not, since the ensemble has not noticed yet."""
    assert machine.files is not None
    machine.files.crash()
    machine.net.crash()
    tasks = sorted(asyncio.all_tasks() - {asyncio.current_task()}, key=hash)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# --- a lost session ---------------------------------------------------------------------------


def test_a_broker_that_lost_its_session_registers_again_and_loses_nothing() -> None:
    async def story(pair: Pair, first: Client, second: Client) -> None:
        await create(first, new_topic("events", assignments={0: (2,)}, partitions=-1, factor=-1))
        await settle()
        assert only(await second.ask(produce("events", batch(b"a")), 9)).error_code == 0
        for value in (b"b", b"c"):
            pair.expire(1)
            await settle()
            assert only(await second.ask(produce("events", batch(value)), 9)).error_code == 0
        fetched = await second.ask(fetch("events", wanted()), 12)
        assert values(only(fetched).records) == [b"a", b"b", b"c"]
        assert pair.machines[1].notes.events("warning").count("session lost") == 2
        for machine in pair.machines:
            assert "possible data loss" not in machine.notes.events("warning")

    with_pair(story)


def test_a_group_coordinator_continues_after_its_broker_lost_its_session() -> None:
    ensemble = MemoryEnsemble()
    stores = SimStoreFactory(ensemble)
    machine = Machine(stores=stores)

    async def tell() -> None:
        async with machine.broker(offsets_topic_replication_factor="1") as client:
            await create(client, new_topic("events"))
            await find(client, "group")
            for offset in (5, 6, 7):
                answer = await client.ask(commit("group", "events", {0: offset}), 9)
                assert codes(answer) == [0]
                assert stores.store is not None
                ensemble.expire(stores.store)
                await settle()
                assert await committed(client, "group") == {("events", 0): offset}

    run(tell(), clock=machine.clock)
