"""A disk that runs full: produces are refused in time, all else works, and it recovers."""

import asyncio
import errno

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from tests.sim.seams.files import SimFiles
from tests.sim.seams.loop import run
from tests.support.broker.group_requests import QUICK, find, join
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

RESERVE_BYTES = 1_000_000
SETTINGS = {
    "ottla_disk_reserve_bytes": str(RESERVE_BYTES),
    "log_retention_check_interval_ms": "10000",
}
SHORT_LIVED: dict[str, str | None] = {
    "segment.ms": "1000",
    "retention.ms": "60000",
    "file.delete.delay.ms": "1000",
}


def leave(machine: Machine, free_bytes: int) -> None:
    """Another process fills the disk up to this many free bytes."""
    used_bytes = sum(map(len, machine.disk.files().values()))
    machine.disk.resize(used_bytes + free_bytes)


async def write(client: Client, value: bytes, timestamp_ms: int) -> int:
    sent = produce("events", batch(value, timestamp_ms=timestamp_ms))
    return int(only(await client.ask(sent, 9)).error_code)


def test_below_the_reserve_produces_are_refused_and_reads_continue_until_it_recovers() -> None:
    machine = Machine()

    async def story() -> None:
        node = machine.node(**SETTINGS)
        await node.start()
        client = await machine.client()
        await create(client, new_topic("events"))
        now_ms = machine.clock.wall_ms
        assert await write(client, b"before", now_ms()) == 0
        leave(machine, RESERVE_BYTES - 100_000)
        await asyncio.sleep(2)
        before = machine.disk.files()
        for _ in range(20):
            assert await write(client, b"refused", now_ms()) == ErrorCode.KAFKA_STORAGE_ERROR
        assert machine.disk.files() == before, "nothing is written"
        fetched = await client.ask(fetch("events", wanted()), 12)
        assert values(only(fetched).records) == [b"before"]
        assert (await client.ask(MetadataRequest(topics=()), 12)).brokers
        assert node.metrics.disk_free_bytes["/data"] < RESERVE_BYTES
        assert node.metrics.request("Produce").errors.counts == {"KAFKA_STORAGE_ERROR": 20}
        leave(machine, 2 * RESERVE_BYTES)
        await asyncio.sleep(2)
        assert await write(client, b"after", now_ms()) == 0
        faults = [(level, event) for level, event, _ in machine.notes.entries if "disk" in event]
        assert faults == [("error", "disk fault"), ("info", "disk fault over")], "each told once"
        client.close()
        await node.stop()

    run(story(), clock=machine.clock)


def test_a_disk_that_fills_quickly_is_noticed_before_its_reserve_is_gone() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events"))
            await asyncio.sleep(3.5)
            leave(machine, RESERVE_BYTES - 1)
            await asyncio.sleep(0.1)
            refused = await write(client, b"x", machine.clock.wall_ms())
            assert refused == ErrorCode.KAFKA_STORAGE_ERROR

    run(story(), clock=machine.clock)


def test_retention_below_the_reserve_frees_space_for_produces() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events", configs=SHORT_LIVED))
            begin_ms = machine.clock.wall_ms()
            for number in range(5):
                assert await write(client, bytes(300_000), begin_ms + 2_000 * number) == 0
            leave(machine, RESERVE_BYTES - 1)
            await asyncio.sleep(2)
            assert await write(client, b"no", begin_ms) == ErrorCode.KAFKA_STORAGE_ERROR
            await asyncio.sleep(90)
            kept = [path for path in machine.disk.files() if "/events-0/" in path]
            assert [path[-6:] for path in kept if path.endswith(".log")] == ["05.log"]
            # The simulated disk never frees the space of open files.
            leave(machine, 3 * RESERVE_BYTES)
            await asyncio.sleep(2)
            assert await write(client, b"yes", machine.clock.wall_ms()) == 0

    run(story(), clock=machine.clock)


def test_a_disk_that_is_full_at_the_start_is_not_written_to() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events"))
        leave(machine, RESERVE_BYTES // 2)
        async with machine.broker(**SETTINGS) as client:
            refused = await write(client, b"early", machine.clock.wall_ms())
            assert refused == ErrorCode.KAFKA_STORAGE_ERROR

    run(story(), clock=machine.clock)


def test_a_disk_that_is_full_despite_the_reserve_refuses_and_recovers() -> None:
    """Another process fills the disk between two checks."""
    machine = Machine()

    async def story() -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events"))
            assert await write(client, b"before", 1_000) == 0
            machine.disk.faults.fail_next_write("*events-0*.log", error=errno.ENOSPC)
            assert await write(client, b"refused", 1_000) == ErrorCode.KAFKA_STORAGE_ERROR
            assert await write(client, b"after", 1_000) == 0
            fetched = await client.ask(fetch("events", wanted()), 12)
            assert values(only(fetched).records) == [b"before", b"after"]

    run(story(), clock=machine.clock)


def test_members_loaded_while_the_disk_is_full_time_out_when_it_has_space() -> None:
    machine = Machine()

    async def members(client: Client) -> int:
        (group,) = (await client.ask(DescribeGroupsRequest(groups=("g",)))).groups
        assert group.error_code == ErrorCode.NONE, group
        return len(group.members)

    async def story() -> None:
        async with machine.broker(**SETTINGS, **QUICK) as client:
            await create(client, new_topic("events"))
            await find(client, "g")
            await join(client, "g")
        leave(machine, RESERVE_BYTES - 100_000)
        async with machine.broker(**SETTINGS, **QUICK) as client:
            await asyncio.sleep(3)
            assert await members(client) == 1
            leave(machine, 2 * RESERVE_BYTES)
            await asyncio.sleep(30)
            assert await members(client) == 0

    run(story(), clock=machine.clock)


def test_a_disk_below_its_reserve_refuses_only_its_own_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two log.dirs on two disks: each disk has its own reserve."""
    machine = Machine()
    free = {"/a": 2 * RESERVE_BYTES, "/b": 2 * RESERVE_BYTES}
    monkeypatch.setattr(SimFiles, "free_bytes", lambda _files, path: free[path])

    async def write_to(client: Client, topic: str) -> int:
        sent = produce(topic, batch(b"x", timestamp_ms=machine.clock.wall_ms()))
        return int(only(await client.ask(sent, 9)).error_code)

    def home(topic: str) -> str:
        return next(path[:2] for path in machine.disk.files() if f"/{topic}-0/" in path)

    async def story() -> None:
        async with machine.broker(**SETTINGS | {"log_dirs": "/a,/b"}) as client:
            for topic in ("one", "two", "three", "four", "five"):
                await create(client, new_topic(topic))
            for topic in ("one", "two"):
                assert await write_to(client, topic) == 0
            on_a, on_b = sorted(("one", "two"), key=home)
            free["/b"] = RESERVE_BYTES - 1
            await asyncio.sleep(2)
            assert await write_to(client, on_b) == ErrorCode.KAFKA_STORAGE_ERROR
            assert await write_to(client, on_a) == 0
            for topic in ("three", "four"):
                assert await write_to(client, topic) == 0
                assert home(topic) == "/a", "a new log goes where there is room"
            free["/a"] = RESERVE_BYTES - 1
            await asyncio.sleep(2)
            assert await write_to(client, on_a) == ErrorCode.KAFKA_STORAGE_ERROR
            assert await write_to(client, "five") == ErrorCode.KAFKA_STORAGE_ERROR
            free["/b"] = 2 * RESERVE_BYTES
            await asyncio.sleep(2)
            assert await write_to(client, on_b) == 0
            assert await write_to(client, "five") == 0
            assert home("five") == "/b"

    run(story(), clock=machine.clock)
    faults = [fields["where"] for _, event, fields in machine.notes.entries if "disk" in event]
    assert faults == ["disk reserve of /b", "disk reserve of /a", "disk reserve of /b"]


def test_a_disk_too_full_for_a_snapshot_of_the_metadata_does_not_end_the_broker() -> None:
    """The next start replays the entries, and the snapshot is retried."""
    machine = Machine()
    snapshot = "*/snapshot.json*"

    def has_snapshot() -> bool:
        return any(path.endswith("/snapshot.json") for path in machine.disk.files())

    async def story() -> None:
        async with machine.running() as (client, node):
            for _ in range(2):
                machine.disk.faults.fail_next_write(snapshot, error=errno.ENOSPC)
            await create(client, new_topic("many", 1_000))
            await asyncio.sleep(1)
            assert "metadata snapshot failed" in machine.notes.events("warning")
            assert node.health.warnings.reasons == [
                "metadata snapshot: [Errno 28] No space left on device"
            ]
            assert node.health.ready.reasons == []
            assert not [path for path in machine.disk.files() if path.endswith(".tmp")]
            assert not has_snapshot()
            await create(client, new_topic("more", 210))
            await asyncio.sleep(1)
            assert machine.notes.events("warning").count("metadata snapshot failed") == 2
            assert not has_snapshot()
        async with machine.running() as (client, node):
            names = (await client.ask(MetadataRequest(topics=None), 12)).topics
            assert sorted(topic.name for topic in names) == ["many", "more"]
            await create(client, new_topic("last", 300))
            await asyncio.sleep(1)
            assert has_snapshot()
            assert node.health.warnings.reasons == []

    run(story(), clock=machine.clock)
