"""Retention by a whole broker, in virtual time: which segments are deleted, and when."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.delete_records import DeleteRecordsRequest, Partition, Topic
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

SEGMENT_MS = 1_000
RETENTION_MS = 60_000
CHECK_MS = 10_000
DELAY_MS = 30_000
SETTINGS = {
    "log_retention_check_interval_ms": str(CHECK_MS),
    # The stories have long pauses.
    "connections_max_idle_ms": "86400000",
}
SHORT_LIVED: dict[str, str | None] = {
    "segment.ms": str(SEGMENT_MS),
    "retention.ms": str(RETENTION_MS),
    "file.delete.delay.ms": str(DELAY_MS),
}
Story = Callable[[Machine], Coroutine[Any, Any, None]]


def tell(story: Story, machine: Machine | None = None) -> None:
    machine = machine or Machine()
    run(story(machine), clock=machine.clock)


async def write(client: Client, value: bytes, timestamp_ms: int) -> None:
    result = only(await client.ask(produce("events", batch(value, timestamp_ms=timestamp_ms)), 9))
    assert result.error_code == 0, result


async def read(client: Client, offset: int) -> Any:
    return only(await client.ask(fetch("events", wanted(offset=offset)), 12))


async def start_and_values(client: Client) -> tuple[int, list[bytes | None]]:
    """The log start offset, and the values of the first segment."""
    start = (await read(client, 0)).log_start_offset
    if start < 0:
        start = await low_watermark(client)
    return start, values((await read(client, start)).records)


async def low_watermark(client: Client, offset: int = 0) -> int:
    """Deletes the records before an offset (none for 0); the log start offset then."""
    asked = Topic(name="events", partitions=(Partition(partition_index=0, offset=offset),))
    request = DeleteRecordsRequest(topics=(asked,), timeout_ms=1_000)
    result = only(await client.ask(request))
    assert result.error_code == 0
    return int(result.low_watermark)


def segments(machine: Machine, ending: str = ".log") -> list[int]:
    """The base offsets of the files with this suffix in the partition's directory."""
    directory = "/data/events-0/"
    names = [path.removeprefix(directory) for path in machine.disk.files() if directory in path]
    return [int(name.removesuffix(ending)) for name in names if name.endswith(ending)]


def age(machine: Machine, *, s: int) -> int:
    """The timestamp of a record of this age."""
    return machine.clock.wall_ms() - s * 1_000


def test_a_segment_is_deleted_when_its_youngest_record_is_too_old() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events", configs=SHORT_LIVED))
            for number, seconds in enumerate((200, 150, 100, 55, 20)):
                await write(client, str(number).encode(), age(machine, s=seconds))
            assert segments(machine) == [0, 1, 2, 3, 4]
            await asyncio.sleep(CHECK_MS / 1000 + 3)
            assert await start_and_values(client) == (4, [b"4"]), "the one of 55 s grew old, too"
            assert (await read(client, 3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert segments(machine) == [4]
            while segments(machine) == [4]:
                await asyncio.sleep(1)
            assert segments(machine) == [4, 5], "never the active one: it ends, and goes later"
            assert await start_and_values(client) == (4, [b"4"])
            await asyncio.sleep(CHECK_MS / 1000 + 3)
            assert await start_and_values(client) == (5, [])
            await write(client, b"5", age(machine, s=0))
            assert await start_and_values(client) == (5, [b"5"])

    tell(story)


def test_one_young_record_keeps_its_segment_and_all_that_follow() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events", configs=SHORT_LIVED))
            # The second batch has an older time, and so begins no segment: the largest counts.
            await write(client, b"young", age(machine, s=5))
            await write(client, b"old", age(machine, s=500))
            await write(client, b"next", age(machine, s=0))
            await write(client, b"last", age(machine, s=-30))
            assert segments(machine) == [0, 2, 3]
            await asyncio.sleep(2 * CHECK_MS / 1000)
            assert (await start_and_values(client))[0] == 0
            await asyncio.sleep(RETENTION_MS / 1000)
            assert (await start_and_values(client))[0] == 3

    tell(story)


def test_record_timestamps_count_and_not_file_times() -> None:
    """In a restored directory the files are new and the records are old; and the reverse."""

    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events", configs=SHORT_LIVED))
            await write(client, b"from long ago", 1_000_000)
            await write(client, b"from the future", age(machine, s=-1_000))
            await write(client, b"active", age(machine, s=-2_000))
            await asyncio.sleep(CHECK_MS / 1000 + 2)
            assert (await start_and_values(client))[0] == 1
            await asyncio.sleep(900)
            assert (await start_and_values(client))[0] == 1
            await asyncio.sleep(200)
            assert (await start_and_values(client))[0] == 2

    tell(story)


def test_files_are_kept_for_their_readers_and_then_removed() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events", configs=SHORT_LIVED))
            for seconds in (300, 200, 0):
                await write(client, b"x", age(machine, s=seconds))
            await asyncio.sleep(CHECK_MS / 1000 + 2)
            assert segments(machine) == [2]
            assert segments(machine, ".log.deleted") == [0, 1]
            await asyncio.sleep(DELAY_MS / 1000 - 5)
            assert segments(machine, ".log.deleted") == [0, 1]
            await asyncio.sleep(10)
            left = [path for path in machine.disk.files() if path.endswith(".deleted")]
            assert left == []

    tell(story)


def test_deleted_files_left_by_a_stop_are_removed_by_the_next_start() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events", configs=SHORT_LIVED))
            for seconds in (300, 200, 0):
                await write(client, b"x", age(machine, s=seconds))
            await asyncio.sleep(CHECK_MS / 1000 + 2)
            assert segments(machine, ".log.deleted") == [0, 1]
        async with machine.broker(**SETTINGS) as client:
            assert (await start_and_values(client))[0] == 2
            assert segments(machine, ".log.deleted") == []

    tell(story)


def test_by_size_the_oldest_segments_are_deleted_until_the_rest_fits() -> None:
    value = bytes(10_000)
    configs: dict[str, str | None] = {
        "segment.ms": str(SEGMENT_MS),
        "retention.ms": "-1",
        "retention.bytes": "35000",
    }

    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events", configs=configs))
            for number in range(10):
                await write(client, value, age(machine, s=-2 * number))
            assert (await start_and_values(client))[0] == 0
            await asyncio.sleep(CHECK_MS / 1000 + 2)
            # As Kafka has it: what is left is the least that is not below the bound.
            assert segments(machine) == [6, 7, 8, 9]
            assert (await start_and_values(client)) == (6, [value])

    tell(story)


def test_without_retention_limits_nothing_is_deleted() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("events", configs={**SHORT_LIVED, "retention.ms": "-1"}))
            for seconds in (30_000, 20_000, 0):
                await write(client, b"x", age(machine, s=seconds))
            await asyncio.sleep(1_000)
            assert (await start_and_values(client)) == (0, [b"x"])
            assert segments(machine) == [0, 1, 2]

    tell(story)


async def crash(machine: Machine) -> None:
    """The machine loses power, and is up again."""
    assert machine.files is not None
    machine.files.crash()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    machine.net.power_loss()
    machine.disk.power_loss()
    machine.net.boot()
    await asyncio.sleep(0)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("by", ["retention", "DeleteRecords"])
@pytest.mark.parametrize("seed", range(3))
def test_the_log_start_offset_survives_every_kind_of_stop(
    is_clean: bool, by: str, seed: int
) -> None:
    async def story(machine: Machine) -> None:
        node = machine.node(**SETTINGS)
        await node.start()
        client = await machine.client()
        await create(client, new_topic("events", configs={**SHORT_LIVED, "flush.messages": "1"}))
        for seconds in (300, 200, 100, 0):
            await write(client, str(seconds).encode(), age(machine, s=seconds))
        if by == "retention":
            await asyncio.sleep(CHECK_MS / 1000 + 2)
        else:
            assert await low_watermark(client, 3) == 3
        assert (await start_and_values(client)) == (3, [b"0"])
        if is_clean:
            client.close()
            await node.stop()
        else:
            await crash(machine)
        async with machine.broker(**SETTINGS) as client:
            assert (await start_and_values(client)) == (3, [b"0"])

    tell(story, Machine(seed))
