"""Aborted transactions of a range: all of them, and in a time that does not grow with the log."""

import random

import pytest

from ottla.protocol.batch import MarkerKind
from ottla.seams.files import File
from ottla.storage.log.cold_read import read_waiting
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.index import BLOCK_ENTRIES, TransactionIndex
from ottla.storage.log.log import Log
from ottla.storage.producers.state import AbortedTransaction
from ottla.storage.producers.transactions import TransactionSpans
from tests.sim.seams.disk import SimDisk
from tests.support.storage.workbench import (
    Workbench,
    append,
    batch_from,
    batch_of,
    end_transaction,
)

ENTRY_BYTES = TransactionIndex.ENTRY.size
MANY = 100_000


class Counting:
    """Reads as the log does, and counts the bytes."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def __call__(self, file: File, position: int, size: int) -> bytes | bytearray:
        found = read_waiting(file, position, size)
        self.read_bytes += len(found)
        return found


def index_of(entries: list[AbortedTransaction]) -> TransactionIndex:
    index = TransactionIndex(FilePool(SimDisk().process()), "/i.txnindex")
    for entry in entries:
        index.add(entry)
    return index


def history(seed: int, aborts: int, open_max: int) -> list[AbortedTransaction]:
    """Aborted transactions of a log in which up to `open_max` are open at a time."""
    chance, spans = random.Random(seed), TransactionSpans()
    open_transactions: dict[int, int] = {}
    found: list[AbortedTransaction] = []
    offset = 0
    while len(found) < aborts:
        offset += chance.randint(1, 3)
        producer_id = chance.randrange(open_max)
        first_offset = open_transactions.pop(producer_id, None)
        if first_offset is None:
            open_transactions[producer_id] = offset
            spans.begin(offset)
            continue
        stable_offset = spans.end(first_offset, offset)
        if chance.random() < 0.7:
            found.append(AbortedTransaction(producer_id, first_offset, offset, stable_offset))
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("open_max", [1, 3, 40])
def test_a_range_has_the_transactions_that_a_look_at_every_entry_finds(
    seed: int, open_max: int
) -> None:
    entries = history(seed, 5 * BLOCK_ENTRIES + seed, open_max)
    index = index_of(entries)
    end = entries[-1].last_offset + 10
    chance = random.Random(seed)
    for _ in range(300):
        start_offset = chance.randrange(end)
        end_offset = chance.randint(start_offset, min(end, start_offset + chance.choice((3, 900))))
        found, is_complete = index.overlapping(start_offset, end_offset)
        assert found == [
            entry
            for entry in entries
            if entry.last_offset >= start_offset and entry.first_offset < end_offset
        ]
        if not is_complete:
            assert entries[-1].last_stable_offset < end_offset


def test_blocks_that_were_cut_are_looked_at_again() -> None:
    entries = history(1, 4 * BLOCK_ENTRIES, 5)
    index = index_of(entries)
    everything = 0, entries[-1].last_offset + 1
    assert index.overlapping(*everything)[0] == entries
    kept = 2 * BLOCK_ENTRIES + 7
    index.truncate_to(entries[kept].last_offset)
    assert index.last_offset == entries[kept - 1].last_offset
    # Shorter ones in their place, so that each block begins and ends earlier than before.
    begin = entries[kept - 1].last_offset + 1
    later = [
        AbortedTransaction(producer_id, first + begin, last + begin, stable + begin)
        for producer_id, first, last, stable in short_transactions(2 * BLOCK_ENTRIES)
    ]
    for entry in later:
        index.add(entry)
    for entry in later:
        assert index.overlapping(entry.first_offset, entry.last_offset)[0] == [entry]
    assert index.overlapping(*everything)[0] == entries[:kept] + later


def short_transactions(count: int) -> list[AbortedTransaction]:
    """Each has one record and its marker."""
    return [
        AbortedTransaction(number, 2 * number, 2 * number + 1, 2 * number + 2)
        for number in range(count)
    ]


def read_bytes_of(
    index: TransactionIndex, start_offset: int, end_offset: int
) -> tuple[int, list[AbortedTransaction]]:
    counting = Counting()
    found, _ = index.overlapping(start_offset, end_offset, counting)
    return counting.read_bytes, found


@pytest.mark.parametrize("place", [0.0, 0.5, 0.999])
def test_a_look_up_among_100_000_aborts_reads_two_blocks_and_the_way_to_them(place: float) -> None:
    entries = short_transactions(MANY)
    index = index_of(entries)
    number = int(place * MANY)
    read_bytes, found = read_bytes_of(index, 2 * number, 2 * number + 20)
    assert found == entries[number : number + 10]
    # Some ten entries of the bisection, whose keys are kept.
    assert read_bytes <= (3 * BLOCK_ENTRIES + 20) * ENTRY_BYTES
    again, _ = read_bytes_of(index, 2 * number, 2 * number + 20)
    assert again <= 3 * BLOCK_ENTRIES * ENTRY_BYTES


def test_a_consumer_beyond_the_last_abort_reads_nothing() -> None:
    index = index_of(short_transactions(MANY))
    assert read_bytes_of(index, 2 * MANY, 2 * MANY + 10) == (0, [])


def test_aborts_during_one_long_transaction_are_passed_without_reading_them_again() -> None:
    entries = [
        AbortedTransaction(number, 2 * number + 5, 2 * number + 6, 1) for number in range(MANY)
    ]
    end = 2 * MANY + 100
    index = index_of([*entries, AbortedTransaction(7, 1, end, end + 1)])
    first, found = read_bytes_of(index, 0, 3)
    assert first >= MANY * ENTRY_BYTES // 2
    assert found == [AbortedTransaction(7, 1, end, end + 1)]
    again, found = read_bytes_of(index, 0, 3)
    assert again <= 2 * BLOCK_ENTRIES * ENTRY_BYTES
    assert len(found) == 1


# In a log


def abort(log: Log, producer_id: int) -> None:
    sequence = 0
    if (entry := log.producers.get(producer_id)) is not None:
        sequence = entry.last_sequence + 1
    append(log, batch_from(producer_id, sequence, transactional=True))
    end_transaction(log, producer_id, MarkerKind.ABORT)


def test_fetches_of_a_log_with_many_aborts_read_as_much_as_those_of_one_with_few(
    bench: Workbench,
) -> None:
    log = bench.open(LogConfig(segment_bytes=200_000, index_interval_bytes=4096))
    costs = []
    for count in (3_000, 3_000):
        for number in range(count):
            abort(log, number)
        assert len(log.segments) > 1
        for offset in (log.end_offset - 4, 100):
            records = log.read(offset, bytes_max=300)
            assert records is not None
            log.aborted_in(records, offset, log.end_offset)
            before = bench.files.read_bytes
            found = log.aborted_in(records, offset, log.end_offset)
            costs.append(bench.files.read_bytes - before)
            assert 1 <= len(found) <= 20 + 2
    assert max(costs) <= 3 * BLOCK_ENTRIES * ENTRY_BYTES
    assert costs[2] <= costs[0] + BLOCK_ENTRIES * ENTRY_BYTES


def test_segments_without_aborts_are_passed_over_and_new_aborts_are_found(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_bytes=1000))
    abort(log, 1)
    for _ in range(30):
        append(log, batch_of(0))
    assert [len(each.aborted) for each in log.segments].count(0) == len(log.segments) - 1
    assert [each.producer_id for each in log.aborted_transactions(0, 2)] == [1]
    assert log.aborted_transactions(5, log.end_offset) == []
    abort(log, 2)
    found = log.aborted_transactions(5, log.end_offset)
    assert [each.producer_id for each in found] == [2]
    log.drop_segments(len(log.segments) - 1)
    found = log.aborted_transactions(log.start_offset, log.end_offset)
    assert [each.producer_id for each in found] == [2]
    log.truncate(log.end_offset - 1)
    assert log.aborted_transactions(log.start_offset, log.end_offset) == []


def test_a_transaction_across_segments_is_found_from_each_of_them(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_bytes=1000))
    append(log, batch_from(7, 0, transactional=True))
    for number in range(40):
        abort(log, 100 + number)
    end_transaction(log, 7, MarkerKind.ABORT)
    for number in range(40):
        abort(log, 200 + number)
    for segment in log.segments:
        found = log.aborted_transactions(segment.base_offset, segment.base_offset + 1)
        expected = segment.base_offset <= 81
        assert (7 in [each.producer_id for each in found]) == expected
