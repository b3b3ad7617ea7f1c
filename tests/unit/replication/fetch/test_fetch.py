"""Several partitions in one reply, and waiting for more, in virtual time."""

import asyncio

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.isolation_level import Isolation
from ottla.replication.fetch.cold_reads import ColdReads
from ottla.replication.fetch.fetch import (
    Fetch,
    FetchItem,
    FetchLimits,
    Find,
    FullFetch,
    Reading,
    read_items,
)
from ottla.replication.lookup import TopicKey
from ottla.replication.replica import Replica
from ottla.seams.threads import SameThread
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, wanted
from tests.support.replication.partitions import Partitions

UNCOMMITTED, COMMITTED = Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED
BATCH_BYTES = len(batch())
TRANSACTIONAL_BYTES = len(batch(transactional=True))
MARKER_BYTES = 78


def filled(partitions: Partitions, counts: list[int]) -> None:
    """A topic whose partitions have so many batches of one record."""
    partitions.create(partitions=len(counts))
    for index, count in enumerate(counts):
        for _ in range(count):
            partitions.append(partitions.find("events", index))


def items(*asked: tuple[int, int]) -> list[FetchItem]:
    return [FetchItem("events", wanted(index, bytes_max=limit)) for index, limit in asked]


def sizes(reading: Reading) -> list[int]:
    return [
        -1 if isinstance(each.outcome, PeerError) else each.outcome.size for each in reading.reads
    ]


def test_a_reply_is_filled_partition_by_partition() -> None:
    partitions = Partitions()
    filled(partitions, [0, 2, 2, 2])
    everything = items(*((index, 1 << 20) for index in range(4)))
    for bytes_max, expected in [
        (1 << 20, [0, 2, 2, 2]),
        (3 * BATCH_BYTES, [0, 2, 1, 0]),
        (2 * BATCH_BYTES, [0, 2, 0, 0]),
        (BATCH_BYTES, [0, 1, 0, 0]),
        (1, [0, 1, 0, 0]),
        (0, [0, 1, 0, 0]),
    ]:
        limits = FetchLimits(1, bytes_max, UNCOMMITTED)
        reading = read_items(everything, limits, partitions.find)
        assert sizes(reading) == [count * BATCH_BYTES for count in expected]
        assert reading.size == sum(expected) * BATCH_BYTES
        assert not reading.is_urgent


def test_each_partition_has_a_limit_of_its_own() -> None:
    partitions = Partitions()
    filled(partitions, [3, 3, 3])
    asked = items((0, BATCH_BYTES), (1, 1), (2, 2 * BATCH_BYTES))
    reading = read_items(asked, FetchLimits(1, 1 << 20, UNCOMMITTED), partitions.find)
    assert sizes(reading) == [BATCH_BYTES, 0, 2 * BATCH_BYTES]


def test_one_that_fails_is_told_and_does_not_keep_the_others_from_it() -> None:
    partitions = Partitions()
    filled(partitions, [1, 1])
    asked = [
        FetchItem("events", wanted(7)),
        FetchItem("events", wanted(0, 9)),
        *items((1, 1 << 20)),
    ]
    reading = read_items(asked, FetchLimits(1, 1 << 20, UNCOMMITTED), partitions.find)
    codes = [each.outcome.code for each in reading.reads if isinstance(each.outcome, PeerError)]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_OUT_OF_RANGE]
    assert sizes(reading) == [-1, -1, BATCH_BYTES]
    assert reading.is_urgent


def begin_transaction(partitions: Partitions, replica: Replica) -> None:
    partitions.append(replica, transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)


def waiting_fetch(
    partitions: Partitions,
    bytes_min: int,
    isolation: Isolation = UNCOMMITTED,
    find: Find | None = None,
) -> Fetch:
    context = FullFetch(items((0, 1 << 20), (1, 1 << 20)), None, isolation)
    limits = FetchLimits(bytes_min, 1 << 20, isolation)
    return Fetch(context, limits, find or partitions.find, ColdReads(SameThread()))


def test_a_long_poll_wakes_with_the_bytes_it_wanted_from_any_partition() -> None:
    async def story() -> None:
        partitions = Partitions()
        filled(partitions, [0, 0])
        first, second = (partitions.find("events", index) for index in (0, 1))
        fetch = waiting_fetch(partitions, bytes_min=2 * BATCH_BYTES)
        assert not fetch.is_enough(fetch.read())
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, partitions.append, first)
        loop.call_later(0.2, partitions.append, second)
        reading = await fetch.read_later(5_000, fetch.read())
        assert sizes(reading) == [BATCH_BYTES, BATCH_BYTES]
        assert round(loop.time(), 3) == 0.2
        assert (len(first.waiting), len(second.waiting)) == (0, 0)

    run(story())


def test_what_came_between_the_look_and_the_wait_is_not_missed() -> None:
    async def story() -> None:
        partitions = Partitions()
        filled(partitions, [0, 0])
        fetch = waiting_fetch(partitions, bytes_min=1)
        fetch.read()
        later = fetch.read_later(5_000, fetch.read())
        partitions.append(partitions.find("events"))
        assert sizes(await later) == [BATCH_BYTES, 0]
        assert asyncio.get_running_loop().time() == 0

    run(story())


def test_when_its_time_is_over_it_takes_what_there_is() -> None:
    async def story() -> None:
        partitions = Partitions()
        filled(partitions, [1, 0])
        fetch = waiting_fetch(partitions, bytes_min=10 * BATCH_BYTES)
        reading = await fetch.read_later(700, fetch.read())
        assert sizes(reading) == [BATCH_BYTES, 0]
        assert round(asyncio.get_running_loop().time(), 3) == 0.7

    run(story())


def test_bytes_that_it_may_not_read_wake_nobody_for_good() -> None:
    async def story() -> None:
        partitions = Partitions()
        filled(partitions, [0, 0])
        replica = partitions.find("events")
        fetch = waiting_fetch(partitions, bytes_min=1, isolation=COMMITTED)
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, begin_transaction, partitions, replica)
        reading = await fetch.read_later(500, fetch.read())
        assert sizes(reading) == [0, 0]
        assert round(loop.time(), 3) == 0.5

    run(story())


def test_appends_of_an_open_transaction_have_no_read_committed_fetch_read_again() -> None:
    async def story() -> None:
        partitions = Partitions()
        filled(partitions, [0, 0])
        replica = partitions.find("events")
        found: list[str] = []

        def find(topic: TopicKey, index: int) -> Replica:
            found.append(str(topic))
            return partitions.find(topic, index)

        fetch = waiting_fetch(partitions, bytes_min=1, isolation=COMMITTED, find=find)
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, begin_transaction, partitions, replica)
        loop.call_later(0.2, partitions.append, replica)
        parked = loop.create_task(fetch.read_later(5_000, fetch.read()))
        await asyncio.sleep(0.3)
        assert len(found) == 2, "the first read of both partitions only"
        partitions.end_transaction(replica, MarkerKind.COMMIT, 1)
        assert sizes(await parked) == [TRANSACTIONAL_BYTES + BATCH_BYTES + MARKER_BYTES, 0]

    run(story())


@pytest.mark.parametrize("kind", MarkerKind)
def test_a_marker_wakes_a_read_committed_fetch_that_wants_more_than_its_bytes(
    kind: MarkerKind,
) -> None:
    async def story() -> None:
        partitions = Partitions()
        filled(partitions, [0, 0])
        replica = partitions.find("events")
        begin_transaction(partitions, replica)
        for _ in range(10):
            partitions.append(replica)
        size_bytes = TRANSACTIONAL_BYTES + 10 * BATCH_BYTES + MARKER_BYTES
        fetch = waiting_fetch(partitions, bytes_min=size_bytes, isolation=COMMITTED)
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, partitions.end_transaction, replica, kind, 1)
        assert sizes(await fetch.read_later(5_000, fetch.read())) == [size_bytes, 0]
        assert round(loop.time(), 3) == 0.1

    run(story())


def test_a_topic_that_is_deleted_meanwhile_is_told_at_once() -> None:
    async def story() -> None:
        partitions = Partitions()
        filled(partitions, [0, 0])
        fetch = waiting_fetch(partitions, bytes_min=1)
        fetch.read()
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, partitions.delete, partitions.find("events"))
        assert sizes(await fetch.read_later(5_000, fetch.read())) == [-1, -1]
        assert round(loop.time(), 3) == 0.1

    run(story())


def test_who_gives_up_leaves_nothing_behind() -> None:
    async def story() -> None:
        partitions = Partitions()
        filled(partitions, [0, 0])
        fetch = waiting_fetch(partitions, bytes_min=1)
        waiting = asyncio.get_running_loop().create_task(fetch.read_later(5_000, fetch.read()))
        await asyncio.sleep(0.1)
        replica = partitions.find("events")
        assert len(replica.waiting) == 1
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(replica.waiting) == 0

    run(story())
