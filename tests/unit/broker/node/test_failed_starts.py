"""A failed start: it gives a reason, changes nothing on disk, and frees everything."""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.errors import CorruptLog, StorageError
from ottla.metadata.embedded.metadata_directory import MetadataDirectoryError
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.storage.directory.directory_opening import DirectoryInUse, WrongCluster
from tests.sim.seams.faults import Operation
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import PORT, Machine, create, new_topic

TWO = {"log_dirs": "/data,/more"}


def tell(machine: Machine, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run(story(), clock=machine.clock)


async def begin(machine: Machine, **settings: str) -> None:
    """Runs a broker once, with one record."""
    async with machine.broker(**settings) as client:
        await create(client, new_topic("events"))
        assert only(await client.ask(produce("events", batch(b"kept")), 9)).error_code == 0


async def live_again(machine: Machine, **settings: str) -> list[int]:
    """Checks that the record is there; the known brokers."""
    async with machine.broker(**settings) as client:
        fetched = await client.ask(fetch("events", wanted()), 12)
        assert values(only(fetched).records) == [b"kept"]
        described = await client.ask(MetadataRequest(topics=()), 12)
    return [broker.node_id for broker in described.brokers]


def test_a_directory_in_use_is_not_touched_and_its_broker_continues() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("events"))
            before = machine.disk.files()
            with pytest.raises(StorageError, match=r"/data.* in use"):
                await machine.node(listeners="PLAINTEXT://0.0.0.0:9999").start()
            assert machine.disk.files() == before
            assert only(await client.ask(produce("events", batch(b"kept")), 9)).error_code == 0
        assert await live_again(machine) == [1]

    tell(machine, story)


def test_a_directory_in_use_by_a_kafka_broker_is_not_touched() -> None:
    """A Kafka broker has no such metadata, but holds the lock of the directory."""
    machine = Machine()

    async def story() -> None:
        kafka = machine.disk.process()
        kafka.make_dir("/data")
        lock = kafka.lock("/data/.lock")
        before = machine.disk.files()
        with pytest.raises(DirectoryInUse, match="/data is in use"):
            await machine.node().start()
        assert machine.disk.files() == before
        assert kafka.list("/data") == [".lock"]
        lock.release()
        await begin(machine)

    tell(machine, story)


def test_a_directory_of_another_node_is_not_touched() -> None:
    machine = Machine()

    async def story() -> None:
        await begin(machine)
        before = machine.disk.files()
        with pytest.raises(WrongCluster, match=r"/data belongs to node 1 .* this is node 2"):
            await machine.node(node_id="2").start()
        assert machine.disk.files() == before
        assert await live_again(machine) == [1], "the other node was never known here"

    tell(machine, story)


def test_a_directory_of_another_cluster_is_refused() -> None:
    machine = Machine()

    async def story() -> None:
        await begin(machine)
        async with machine.broker(log_dirs="/more"):
            pass
        with pytest.raises(MetadataDirectoryError, match="/data and /more both have metadata"):
            await machine.node(**TWO).start()
        machine.disk.process().rename("/more/__ottla_metadata-0", "/metadata")
        with pytest.raises(WrongCluster, match="/more belongs to node 1 of cluster"):
            await machine.node(**TWO).start()
        assert await live_again(machine) == [1]

    tell(machine, story)


def test_partitions_without_meta_properties_are_not_adopted() -> None:
    machine = Machine()

    async def story() -> None:
        await begin(machine)
        machine.disk.process().remove("/data/meta.properties")
        with pytest.raises(CorruptLog, match=r"meta\.properties"):
            await machine.node().start()

    tell(machine, story)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize(
    ("operation", "pattern"),
    [("lock", "/data/.lock"), ("read", "/data/meta.properties"), ("read", "*__ottla_metadata*")],
)
def test_an_unreadable_only_directory_fails_the_start(
    operation: Operation, pattern: str, error: int
) -> None:
    machine = Machine()

    async def story() -> None:
        await begin(machine)
        machine.disk.faults.fail_next(operation, pattern, error=error)
        with pytest.raises((OSError, StorageError)):
            await machine.node().start()
        assert await live_again(machine) == [1]

    tell(machine, story)


def test_an_unreadable_second_directory_is_offline_and_logged() -> None:
    machine = Machine()

    async def story() -> None:
        await begin(machine, **TWO)
        machine.disk.faults.fail_next("lock", "/more/.lock")
        machine.disk.faults.fail_next("lock", "/more/.lock")
        node = machine.node(**TWO)
        await node.start()
        await asyncio.sleep(2)
        assert ("error", "log directory offline") in [
            (level, event) for level, event, _ in machine.notes.entries
        ]
        assert node.metrics.broker.offline_log_dirs == 1
        await node.stop()

    tell(machine, story)


def test_a_port_in_use_fails_the_start_and_frees_everything() -> None:
    machine = Machine()

    async def story() -> None:
        await begin(machine)
        taken = await machine.net.listen(asyncio.Protocol, "0.0.0.0", PORT)
        with pytest.raises(OSError, match=f"{PORT}") as failed:
            await machine.node().start()
        assert failed.value.errno == errno.EADDRINUSE
        await taken.close()
        assert await live_again(machine) == [1]

    tell(machine, story)
