"""Partitions that are read while their pages are not in memory, and change meanwhile."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from ottla.errors import ErrorCode, LogOffline, PeerError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.isolation_level import Isolation
from ottla.replication.fetch.cold_reads import ColdReads
from ottla.replication.fetch.fetch import (
    Fetch,
    FetchItem,
    FetchLimits,
    FullFetch,
    Reading,
    read_items,
)
from ottla.replication.replica import Replica
from ottla.storage.log import time_search
from ottla.storage.log.cold_read import COLD_READS_MAX, ColdBytes, ColdRead
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from tests.sim.seams.files import SimFile
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import NOW_MS, values, wanted
from tests.support.replication.partitions import RULES, Partitions
from tests.support.time_searches import largest_timestamp, offset_for_time

Result = TypeVar("Result")
COUNT = 120
UNCOMMITTED, COMMITTED = Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED
LIMITS = FetchLimits(1, 1 << 20, UNCOMMITTED)


class Meddling:
    """Threads beside which something else happens, before the work or after it."""

    def __init__(
        self,
        *,
        before: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self.runs = 0
        self._before = before
        self._after = after

    async def run(self, work: Callable[[], Result]) -> Result:
        self.runs += 1
        await asyncio.sleep(0)
        self._before()
        result = work()
        self._after()
        await asyncio.sleep(0)
        return result

    def close(self) -> None:
        """Nothing runs."""


def value(number: int) -> bytes:
    return b"%06d" % number + bytes(1_500)


def filled(partitions: Partitions, count: int = 1, *, spread_ms: int = 0) -> Replica:
    """Partitions with several closed segments each, of batches larger than a page has room for."""
    log = LogConfig(segment_bytes=40_000, index_interval_bytes=4_096, tail_batches_max=4)
    partitions.rules = replace(RULES, log=log)
    partitions.create(partitions=count)
    for index in range(count):
        replica = partitions.find("events", index)
        for number in range(COUNT):
            partitions.append(replica, value(number), timestamp_ms=NOW_MS + number * spread_ms)
    return partitions.find("events", 0)


def log_of(replica: Replica) -> Log:
    assert replica.log is not None
    return replica.log


def read_cold(
    partitions: Partitions,
    threads: Meddling,
    *asked: tuple[int, int],
    limits: FetchLimits = LIMITS,
    bytes_max: int = 5_000,
) -> Reading:
    """What a fetch of these partitions and offsets gives whose first look finds all pages cold."""
    items = [FetchItem("events", wanted(index, at, bytes_max=bytes_max)) for index, at in asked]

    async def story() -> Reading:
        context = FullFetch(items, None, limits.isolation)
        fetch = Fetch(context, limits, partitions.find, ColdReads(threads))
        return await fetch.read_cold(fetch.read())

    return run(story())


def told(reading: Reading) -> list[object]:
    """What each partition gave, read in full; or the code of its error."""
    return [
        each.outcome.code
        if isinstance(each.outcome, PeerError)
        else (
            each.outcome.start_offset,
            each.outcome.high_watermark,
            each.outcome.records and each.outcome.records.read(),
        )
        for each in reading.reads
    ]


@pytest.mark.parametrize("offset", range(0, COUNT - 7, 7))
def test_a_cold_partition_is_read_after_a_thread_and_never_by_the_loop(offset: int) -> None:
    partitions = Partitions()
    filled(partitions)
    items = [FetchItem("events", wanted(0, offset, bytes_max=5_000))]
    expected = told(read_items(items, LIMITS, partitions.find))
    partitions.disk.chill("*events*")
    threads = Meddling()
    reading = read_cold(partitions, threads, (0, offset))
    assert partitions.disk.pages_waited_for == 0
    assert 1 <= threads.runs < 5
    (records,) = [each.outcome.records for each in reading.reads]  # type: ignore[union-attr]
    assert records is not None
    assert told(reading) == expected
    assert values(records.read())[0] == value(offset)


def trim(partitions: Partitions, replica: Replica) -> None:
    log_of(replica).advance_start(60)
    log_of(replica).drop_segments(2)


def trim_a_little(partitions: Partitions, replica: Replica) -> None:
    log_of(replica).advance_start(30)


def cut(partitions: Partitions, replica: Replica) -> None:
    log_of(replica).truncate(45)
    for number in range(500, 500 + COUNT - 45):
        log = log_of(replica)
        partitions.append(replica, value(number))
        assert log.end_offset <= COUNT


def cut_away(partitions: Partitions, replica: Replica) -> None:
    log_of(replica).truncate(5)


def roll(partitions: Partitions, replica: Replica) -> None:
    log_of(replica).roll()
    partitions.append(replica, value(COUNT))


def delete(partitions: Partitions, replica: Replica) -> None:
    partitions.delete(replica)


def make_anew(partitions: Partitions, replica: Replica) -> None:
    partitions.delete(replica)
    partitions.create()
    for number in range(900, 1_000):
        partitions.append(partitions.find("events"), value(number))


def fail(partitions: Partitions, replica: Replica) -> None:
    with pytest.raises(Exception, match="it failed"):
        log_of(replica).fail(OSError(5, "it failed"))


@pytest.mark.parametrize(
    "change",
    [trim, trim_a_little, cut, cut_away, roll, delete, make_anew, fail],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("comes_before", [True, False])
@pytest.mark.parametrize("offset", [0, 35, 50, 100])
@pytest.mark.parametrize("nth", [1, 2])
def test_what_changes_while_pages_are_read_is_what_the_reader_is_told(
    change: Callable[[Partitions, Replica], None], comes_before: bool, offset: int, nth: int
) -> None:
    partitions = Partitions()
    replica = filled(partitions)
    partitions.disk.chill("*events*")
    waited: list[int] = []

    def meddle() -> None:
        if threads.runs == nth and not waited:
            change(partitions, replica)
            waited.append(partitions.disk.pages_waited_for)

    threads = Meddling(before=meddle) if comes_before else Meddling(after=meddle)
    reading = read_cold(partitions, threads, (0, offset))
    # A cut reads the log itself.
    assert partitions.disk.pages_waited_for == (waited[0] if waited else 0)
    items = [FetchItem("events", wanted(0, offset, bytes_max=5_000))]
    assert told(reading) == told(read_items(items, LIMITS, partitions.find))


def test_pages_that_are_never_in_memory_are_waited_for_after_so_many_tries() -> None:
    partitions = Partitions()
    filled(partitions)
    partitions.disk.chill("*events*")
    threads = Meddling(after=partitions.disk.chill)
    reading = read_cold(partitions, threads, (0, 50))
    assert threads.runs == COLD_READS_MAX
    assert partitions.disk.pages_waited_for > 0
    (outcome,) = [each.outcome for each in reading.reads]
    assert not isinstance(outcome, PeerError)
    assert outcome.records is not None
    assert values(outcome.records.read())[0] == value(50)


def test_a_disk_that_cannot_read_cold_pages_takes_the_log_offline_and_no_other() -> None:
    partitions = Partitions()
    replica = filled(partitions, 2)
    partitions.disk.chill("*events*")
    partitions.disk.faults.fail_next_read("*events-0*")
    reading = read_cold(partitions, Meddling(), (0, 50), (1, 50))
    assert log_of(replica).offline is not None
    assert partitions.disk.pages_waited_for == 0
    first, second = told(reading)
    assert first is ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(second, tuple)
    assert reading.is_urgent


def test_cold_partitions_are_read_together_and_only_those_that_a_reply_has_room_for() -> None:
    partitions = Partitions()
    filled(partitions, 12)
    partitions.disk.chill("*events*")
    threads = Meddling()
    asked = [(index, 50) for index in range(12)]
    limits = FetchLimits(1, 4 * 5_000, UNCOMMITTED)
    reading = read_cold(partitions, threads, *asked, limits=limits)
    assert threads.runs < 5
    assert [size > 0 for size in sizes(reading)] == [True] * 4 + [False] * 8
    last = partitions.find("events", 11)
    with pytest.raises(ColdRead):
        log_of(last).read(50, bytes_max=1, warm_only=True)
    everything = read_cold(partitions, threads, *asked)
    assert all(size > 0 for size in sizes(everything))
    assert partitions.disk.pages_waited_for == 0


def sizes(reading: Reading) -> list[int]:
    return [
        -1 if isinstance(each.outcome, PeerError) else each.outcome.size for each in reading.reads
    ]


def test_a_reader_of_committed_records_is_told_of_aborts_from_cold_indexes() -> None:
    partitions = Partitions()
    replica = filled(partitions)
    for number in range(6):
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
        partitions.append(replica, value(number), transactional=True, **fields)
        partitions.end_transaction(replica, MarkerKind.ABORT, 7)
    for number in range(40):
        partitions.append(replica, value(number))
    limits = FetchLimits(1, 1 << 20, COMMITTED)
    items = [FetchItem("events", wanted(0, COUNT, bytes_max=5_000))]
    (expected,) = read_items(items, limits, partitions.find).reads
    partitions.disk.chill("*events*")
    reading = read_cold(partitions, Meddling(), (0, COUNT), limits=limits)
    (found,) = reading.reads
    assert not isinstance(found.outcome, PeerError)
    assert not isinstance(expected.outcome, PeerError)
    assert found.outcome.aborted == expected.outcome.aborted
    assert found.outcome.aborted
    assert partitions.disk.pages_waited_for == 0


def test_a_reader_at_the_tail_asks_the_disk_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = Partitions()
    filled(partitions)
    calls: list[str] = []
    for name in ("read_at", "read_warm", "is_warm", "size"):
        monkeypatch.setattr(SimFile, name, lambda *_, name=name: calls.append(name))
    threads = Meddling()
    reading = read_cold(partitions, threads, (0, COUNT - 1))
    assert sizes(reading)[0] > 0
    assert (calls, threads.runs) == ([], 0)


def test_a_warm_look_up_reads_no_more_often_than_one_that_may_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for warm_only, calls in counts.items():
        partitions = Partitions()
        log = log_of(filled(partitions))
        name = "read_warm" if warm_only else "read_at"
        original = getattr(SimFile, name)

        def noted(
            file: SimFile, position: int, size: int,
            calls: list[tuple[int, int]] = calls, original: Callable[..., bytes] = original,
        ) -> bytes:  # fmt: skip
            calls.append((position, size))
            return original(file, position, size)

        with monkeypatch.context() as patched:
            patched.setattr(SimFile, name, noted)
            for offset in range(0, COUNT - 4, 5):
                log.read(offset, bytes_max=5_000, warm_only=warm_only)
    assert counts[True] == counts[False]
    assert counts[True]


def searched(log: Log, timestamp_ms: int | None, meddle: Callable[[int], None]) -> object:
    """What a search finds in cold data, step by step; `meddle` is told of each cold step."""
    search = time_search.latest(log)
    if timestamp_ms is not None:
        search = time_search.first_since(log, timestamp_ms)
    answer: time_search.Answer = None
    steps = 0
    try:
        while True:
            step = search.send(answer)
            answer = None
            if isinstance(step, ColdBytes):
                steps += 1
                meddle(steps)
                step.warm()
            elif step is not None:
                answer = step.answer()
    except StopIteration as over:
        assert steps
        return over.value
    except LogOffline:
        return "offline"


@pytest.mark.parametrize(
    "change",
    [None, trim, trim_a_little, cut, cut_away, roll, fail],
    ids=lambda change: change.__name__ if change else "nothing",
)
@pytest.mark.parametrize("number", [0, 35, 50, 100, None])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_search_by_time_goes_on_in_what_is_left_of_the_log(
    change: Callable[[Partitions, Replica], None] | None, number: int | None, nth: int
) -> None:
    partitions = Partitions()
    replica = filled(partitions, spread_ms=1_000)
    log = log_of(replica)
    partitions.disk.chill("*events*")
    waited: list[int] = []

    def meddle(step: int) -> None:
        if change is not None and step == nth:
            change(partitions, replica)
            waited.append(partitions.disk.pages_waited_for)

    timestamp_ms = None if number is None else NOW_MS + 1_000 * number
    found = searched(log, timestamp_ms, meddle)
    assert partitions.disk.pages_waited_for == (waited[0] if waited else 0)
    if log.offline is not None:
        assert found == "offline"
    elif timestamp_ms is not None:
        assert found == offset_for_time(log, timestamp_ms)
    elif change not in (cut, cut_away):
        assert found == largest_timestamp(log)


def test_the_largest_time_of_a_cold_log_that_was_trimmed_is_found_without_waiting() -> None:
    partitions = Partitions()
    replica = filled(partitions, spread_ms=-1_000)
    log = log_of(replica)
    log.advance_start(50)
    expected = largest_timestamp(log)
    partitions.disk.chill("*events*")
    assert searched(log, None, lambda _: None) == expected
    assert expected is not None
    assert expected.offset == 50
    assert partitions.disk.pages_waited_for == 0
