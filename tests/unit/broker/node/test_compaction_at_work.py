"""Compaction by a whole broker, in virtual time: order, timing, and failures of the worker."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.batch import read_header
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.storage.log.log import Log
from tests.sim.seams.loop import run
from tests.support.broker.compaction_observations import STEP_MS, kept
from tests.support.broker.observations import World
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

SETTINGS = {
    "log_cleaner_backoff_ms": "5000",
    "connections_max_idle_ms": "86400000",
}
COMPACTED: dict[str, str | None] = {"cleanup.policy": "compact", "segment.ms": "1000"}
A_ROUND_S = 12
Story = Callable[[Machine], Coroutine[Any, Any, None]]


def tell(story: Story) -> Machine:
    machine = Machine()
    run(story(machine), clock=machine.clock)
    return machine


async def write(
    machine: Machine, client: Client, topic: str, *sent: tuple[bytes, bytes | None]
) -> None:
    """Writes records with timestamps that put each into its own segment."""
    for number, (key, value) in enumerate(sent):
        records = batch(
            value,  # type: ignore[arg-type]
            key=key,
            timestamp_ms=machine.clock.wall_ms() + number * STEP_MS,
        )
        result = only(await client.ask(produce(topic, records), 9))
        assert result.error_code == 0, result


def left(machine: Machine, client: Client, topic: str) -> list[tuple[int, bytes | None]]:
    return [(each.offset, each.value) for each in kept(World(machine, client), topic)]


def test_the_dirtiest_log_is_compacted_first_and_each_only_once() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            for topic in ("clean", "dirty"):
                await create(client, new_topic(topic, configs=COMPACTED))
                await write(machine, client, topic, *((b"k", b"%d" % n) for n in range(4)))
            await asyncio.sleep(A_ROUND_S)
            assert len(machine.workers.jobs) == 2
            for topic, times in (("clean", 3), ("dirty", 9)):
                await write(machine, client, topic, *((b"x", b"%d" % n) for n in range(times)))
            await asyncio.sleep(A_ROUND_S)
            directories = [job["directory"] for job in machine.workers.jobs[2:]]
            assert directories == ["/data/dirty-0", "/data/clean-0"]
            assert left(machine, client, "clean") == [(3, b"3"), (5, b"1"), (6, b"2")]
            await asyncio.sleep(10 * A_ROUND_S)
            assert len(machine.workers.jobs) == 4
            assert machine.workers.started == 1

    assert tell(story).workers.alive == 0


def test_a_segment_closed_just_before_a_compaction_is_compacted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("t", configs=COMPACTED))
            await write(machine, client, "t", *((b"k", b"%d" % n) for n in range(4)))
            await asyncio.sleep(2)
            # From now on nothing but the cleaner has the log flushed.
            monkeypatch.setattr(Log, "has_unflushed_segments", False)
            await write(machine, client, "t", *((b"k", b"%d" % n) for n in range(4)))
            await asyncio.sleep(A_ROUND_S)
            assert left(machine, client, "t") == [(6, b"2"), (7, b"3")]
            assert len(machine.workers.jobs) == 1

    tell(story)


def test_a_consumer_reads_on_over_the_gaps_and_keyless_records_are_refused() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("t", configs=COMPACTED))
            await write(machine, client, "t", *((b"k%d" % (n % 2), b"%d" % n) for n in range(9)))
            await asyncio.sleep(A_ROUND_S)
            found, offset = [], 0
            while offset < 9:
                part = only(await client.ask(fetch("t", wanted(offset=offset)), 12))
                assert (part.high_watermark, part.log_start_offset) == (9, 0)
                found += values(part.records)
                offset = next_offset(bytes(part.records))
            assert found == [b"6", b"7", b"8"]
            refused = only(await client.ask(produce("t", batch(b"no key")), 9))
            assert refused.error_code == ErrorCode.INVALID_RECORD

    tell(story)


def next_offset(records: bytes) -> int:
    position = offset = 0
    while position < len(records):
        header = read_header(records, position)
        position, offset = position + header.size, header.next_offset
    return offset


def test_the_cleaners_checkpoint_survives_a_restart() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("t", configs=COMPACTED))
            await write(machine, client, "t", *((b"k", b"%d" % n) for n in range(5)))
            await asyncio.sleep(A_ROUND_S)
            expected = left(machine, client, "t")
        checkpoint = machine.disk.files()["/data/cleaner-offset-checkpoint"]
        assert checkpoint.decode().splitlines()[2:] == ["t 0 4"]
        async with machine.broker(**SETTINGS) as client:
            await asyncio.sleep(A_ROUND_S)
            assert left(machine, client, "t") == expected
            assert machine.workers.jobs == []

    tell(story)


def test_a_dead_worker_is_restarted_and_the_log_is_compacted() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("t", configs=COMPACTED))
            await write(machine, client, "t", *((b"k", b"%d" % n) for n in range(5)))
            machine.workers.deaths_due = 2
            await asyncio.sleep(3 * A_ROUND_S)
            assert machine.workers.started == 3
            assert left(machine, client, "t") == [(3, b"3"), (4, b"4")]
        assert machine.notes.events("warning").count("cleaner died") == 2
        assert machine.notes.events("error") == []

    tell(story)


def test_a_log_that_kills_every_worker_is_skipped_and_the_others_are_compacted() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            await create(client, new_topic("bad", configs=COMPACTED))
            await write(machine, client, "bad", *((b"k", b"%d" % n) for n in range(5)))
            machine.workers.deaths_due = 3
            await asyncio.sleep(4 * A_ROUND_S)
            assert machine.notes.events("error") == ["log cannot be compacted"]
            await create(client, new_topic("good", configs=COMPACTED))
            await write(machine, client, "good", *((b"k", b"%d" % n) for n in range(5)))
            await asyncio.sleep(A_ROUND_S)
            assert left(machine, client, "good") == [(3, b"3"), (4, b"4")]
            assert len(left(machine, client, "bad")) == 5

    tell(story)


def test_worker_deaths_of_a_deleted_log_do_not_count_for_the_recreated_topic() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker(**SETTINGS) as client:
            for _ in range(2):
                await create(client, new_topic("t", configs=COMPACTED))
                await write(machine, client, "t", *((b"k", b"%d" % n) for n in range(5)))
                machine.workers.deaths_due = 2
                while machine.workers.deaths_due and not machine.notes.events("error"):
                    await asyncio.sleep(0.1)
                if machine.workers.started == 2:
                    await client.ask(DeleteTopicsRequest(topic_names=("t",), timeout_ms=5_000), 5)
            await asyncio.sleep(A_ROUND_S)
            assert machine.notes.events("error") == []
            assert left(machine, client, "t") == [(3, b"3"), (4, b"4")]

    tell(story)


def test_a_damaged_log_is_skipped_logged_and_counted() -> None:
    async def story(machine: Machine) -> None:
        node = machine.node(**SETTINGS)
        await node.start()
        client = await machine.client()
        await create(client, new_topic("t", configs=COMPACTED))
        await write(machine, client, "t", *((b"k", b"%d" % n) for n in range(5)))
        await asyncio.sleep(3)
        machine.disk.flip_bit("/data/t-0/00000000000000000001.log", 65)
        await asyncio.sleep(A_ROUND_S)
        meter = node.metrics.cleaner
        assert machine.notes.events("error") == ["log cannot be compacted"]
        assert meter.uncleanable_partitions == {"/data": 1}
        assert meter.uncleanable_bytes["/data"] > 0
        shown = b"".join(node.metrics.render()).decode()
        count = 'kafka_log_logcleanermanager_uncleanable_partitions_count{logDirectory="/data"} 1'
        assert count in shown
        await asyncio.sleep(5 * A_ROUND_S)
        assert len(machine.workers.jobs) == 1
        client.close()
        await node.stop()

    tell(story)


def test_retention_and_compaction_share_a_log() -> None:
    async def story(machine: Machine) -> None:
        both: dict[str, str | None] = {
            **COMPACTED,
            "cleanup.policy": "compact,delete",
            "retention.ms": "60000",
        }
        settings = {**SETTINGS, "log_retention_check_interval_ms": "1000"}
        async with machine.broker(**settings) as client:
            await create(client, new_topic("t", configs=both))
            await write(machine, client, "t", *((b"k%d" % (n % 2), b"%d" % n) for n in range(9)))
            await asyncio.sleep(A_ROUND_S)
            assert left(machine, client, "t") == [(6, b"6"), (7, b"7"), (8, b"8")]
            await asyncio.sleep(120)
            assert left(machine, client, "t") == []
        assert machine.notes.events("error") == []

    tell(story)
