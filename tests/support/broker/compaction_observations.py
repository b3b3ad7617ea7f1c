"""Observations of a broker's compaction: the remaining records, and the worker's jobs."""

import asyncio
from typing import Any

from ottla.protocol.batch import Record, read_header, records
from tests.support.broker.observations import TOPIC, World
from tests.support.broker.produce_and_fetch import batch

KEY, OTHER_KEY = b"key", b"other"
# With a roll every second, each of these begins a segment.
STEP_MS = 2_000
COMPACTED = {
    "log.cleanup.policy": "compact",
    "log.roll.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
}
# Longer than a flush, a look of the cleaner, and a compaction.
A_ROUND_S = 8


async def send(world: World, later_ms: int, key: bytes, value: bytes | None) -> None:
    """Produces one record with a key, which must succeed."""
    sent: Any = value
    answer = await world.send(batch(sent, key=key, timestamp_ms=world.now_ms + later_ms))
    assert answer.error_code == 0, answer


def kept(world: World, topic: str = TOPIC) -> list[Record]:
    """All records with a key that are on disk, in order."""
    found: list[Record] = []
    for content in world.files(f"/data/{topic}-0/*.log").values():
        position = 0
        while position < len(content):
            found += [each for each in records(content, position) if each.key is not None]
            position += read_header(content, position).size
    return found


async def records_of_one_key(world: World) -> int:
    """The number that remains of four records of one key, each in its own segment."""
    for number in range(1, 5):
        await send(world, number * STEP_MS, KEY, b"%d" % number)
    await asyncio.sleep(A_ROUND_S)
    return len(kept(world))


async def records_soon_after(world: World) -> int:
    """The same, after a longer wait than the setting under test."""
    await asyncio.sleep(16)
    return await records_of_one_key(world)


async def tombstone_after_a_while(world: World) -> bool:
    """Whether a tombstone remains after two compactions."""
    for number, value in enumerate((b"1", None, b"2"), start=1):
        await send(world, number * STEP_MS, KEY if number < 3 else OTHER_KEY, value)
    await asyncio.sleep(A_ROUND_S)
    for number in (4, 5, 6):
        await send(world, number * STEP_MS, OTHER_KEY, b"3")
    await asyncio.sleep(A_ROUND_S)
    return any(record.key == KEY and record.value is None for record in kept(world))


async def job(world: World) -> dict[str, Any]:
    """The worker's last job."""
    await records_of_one_key(world)
    return world.machine.workers.jobs[-1]


async def memory_for_keys(world: World) -> int:
    return int((await job(world))["key_map_bytes_max"])


async def load_of_the_key_map(world: World) -> float:
    return float((await job(world))["key_map_load_factor"])


async def bytes_read_at_a_time(world: World) -> int:
    return int((await job(world))["window_bytes"])


async def bytes_a_second(world: World) -> float:
    return float((await job(world))["bytes_per_second"])
