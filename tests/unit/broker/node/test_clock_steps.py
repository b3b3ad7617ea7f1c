"""Steps of the wall clock, back or forward, do not change the timing of background work."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.broker.node.node import Node
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.directory.checkpoint_files import RECOVERY_POINTS, read_offsets
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

DAY_MS = 86_400_000
STEPS = pytest.mark.parametrize("step_ms", [-DAY_MS, 365 * DAY_MS], ids=["back", "forward"])

CHECK_S = 10
CHECKPOINT_S = 60
DELAY_S = 30
FLUSH_S = 20
SETTINGS = {
    "log_retention_check_interval_ms": str(CHECK_S * 1000),
    "log_flush_offset_checkpoint_interval_ms": str(CHECKPOINT_S * 1000),
    "connections_max_idle_ms": "864000000",
}
FLUSHED: dict[str, str | None] = {"flush.ms": str(FLUSH_S * 1000), "retention.ms": "-1"}
Story = Callable[[Machine, Client, Node], Coroutine[Any, Any, None]]


def tell(story: Story) -> None:
    machine = Machine()

    async def whole() -> None:
        async with machine.running(**SETTINGS) as (client, node):
            await story(machine, client, node)

    run(whole(), clock=machine.clock)


async def write(client: Client, value: bytes, timestamp_ms: int) -> None:
    result = only(await client.ask(produce("events", batch(value, timestamp_ms=timestamp_ms)), 9))
    assert result.error_code == 0, result


def names(machine: Machine, ending: str) -> list[str]:
    found = [path for path in machine.disk.files() if "/events-0/" in path]
    return [path.rpartition("/")[2] for path in found if path.endswith(ending)]


def recovery_point(machine: Machine) -> int:
    """The recovery point that a start after a crash would find."""
    files = machine.disk.process()
    return read_offsets(files, f"/data/{RECOVERY_POINTS}").get(TopicPartition("events", 0), 0)


async def delete(client: Client, topic: str) -> None:
    answer = await client.ask(DeleteTopicsRequest(topic_names=(topic,), timeout_ms=1_000), 5)
    assert [each.error_code for each in answer.responses] == [0]


@STEPS
def test_flushes_and_checkpoints_continue_after_the_wall_clock_was_set(step_ms: int) -> None:
    async def story(machine: Machine, client: Client, _node: Node) -> None:
        await create(client, new_topic("events", configs=FLUSHED))
        await write(client, b"before", machine.clock.wall_ms())
        await asyncio.sleep(1)
        machine.clock.jump_wall(step_ms)
        await asyncio.sleep(FLUSH_S + CHECKPOINT_S + 5)
        assert recovery_point(machine) == 1
        await write(client, b"after", machine.clock.wall_ms())
        await asyncio.sleep(FLUSH_S + CHECKPOINT_S + 5)
        assert recovery_point(machine) == 2

    tell(story)


@STEPS
def test_a_flush_does_not_come_early_because_the_wall_clock_was_set(step_ms: int) -> None:
    async def story(machine: Machine, client: Client, node: Node) -> None:
        await create(client, new_topic("events", configs=FLUSHED))
        await write(client, b"x", machine.clock.wall_ms())
        machine.clock.jump_wall(step_ms)
        assert node._directories is not None
        log = node._directories.get(TopicPartition("events", 0))
        assert log is not None
        await asyncio.sleep(FLUSH_S - 3)
        assert log.recovery_point == 0
        await asyncio.sleep(5)
        assert log.recovery_point == 1

    tell(story)


@STEPS
def test_retention_and_file_removals_keep_their_delays(step_ms: int) -> None:
    """Retention by size: retention by time uses the records' timestamps, as in Kafka."""
    configs: dict[str, str | None] = {
        "segment.ms": "1000",
        "retention.ms": "-1",
        "retention.bytes": "1",
        "file.delete.delay.ms": str(DELAY_S * 1000),
    }

    async def story(machine: Machine, client: Client, _node: Node) -> None:
        await create(client, new_topic("events", configs=configs))
        begin_ms = machine.clock.wall_ms()
        for number in range(4):
            await write(client, b"x" * 100, begin_ms + 2_000 * number)
        assert len(names(machine, ".log")) == 4
        machine.clock.jump_wall(step_ms)
        await asyncio.sleep(CHECK_S + 2)
        assert len(names(machine, ".log")) == 1
        assert len(names(machine, ".log.deleted")) == 3
        machine.clock.jump_wall(step_ms)
        await asyncio.sleep(DELAY_S - 5)
        assert len(names(machine, ".log.deleted")) == 3, "readers have their time"
        await asyncio.sleep(8)
        assert names(machine, ".deleted") == []

    tell(story)


@STEPS
def test_a_deleted_topics_files_are_purged_on_time(step_ms: int) -> None:
    configs: dict[str, str | None] = {"file.delete.delay.ms": str(DELAY_S * 1000)}

    def left(machine: Machine) -> list[str]:
        return [path for path in machine.disk.files() if "-delete/" in path]

    async def story(machine: Machine, client: Client, node: Node) -> None:
        await create(client, new_topic("events", configs=configs))
        await write(client, b"x", machine.clock.wall_ms())
        await delete(client, "events")
        await asyncio.sleep(2)
        assert left(machine)
        machine.clock.jump_wall(step_ms)
        await asyncio.sleep(DELAY_S - 5)
        assert left(machine)
        await asyncio.sleep(8)
        assert not left(machine)
        assert node.metrics.cleaner.since_last_run_ms < 60_000

    tell(story)
