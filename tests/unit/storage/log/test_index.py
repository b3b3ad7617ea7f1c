"""The sparse indexes find by binary search, survive on disk, and are not believed blindly."""

import errno
from struct import Struct

import pytest

from ottla.storage.log.cold_read import ColdRead, read_warm
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.index import (
    BLOCK_ENTRIES,
    PENDING_BYTES_MAX,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
)
from ottla.storage.producers.state import AbortedTransaction
from tests.sim.seams.disk import SimDisk
from tests.support.storage.workbench import Workbench

BASE = 1000


def offset_index(bench: Workbench, count: int = 0) -> OffsetIndex:
    """Entries for every tenth offset, a hundred bytes apart."""
    index = OffsetIndex(FilePool(bench.files), bench.path("i.index"), BASE)
    for number in range(1, count + 1):
        index.add(BASE + 10 * number, 100 * number)
    return index


def time_index(bench: Workbench) -> TimeIndex:
    return TimeIndex(FilePool(bench.files), bench.path("t.timeindex"), BASE)


def test_a_look_up_starts_at_the_last_entry_that_does_not_lie_beyond(bench: Workbench) -> None:
    index = offset_index(bench, 50)
    for offset in range(BASE, BASE + 520):
        assert index.position_before(offset) == (min(offset - BASE, 500) // 10) * 100


def test_entries_are_found_alike_in_memory_and_on_disk(bench: Workbench) -> None:
    index = offset_index(bench, 3 * PENDING_BYTES_MAX // 8 + 100)
    waiting = [index.position_before(offset) for offset in range(BASE, BASE + 16000, 7)]
    assert 0 < index.written_bytes < index.size_bytes
    index.write()
    assert index.written_bytes == index.size_bytes
    assert waiting == [index.position_before(offset) for offset in range(BASE, BASE + 16000, 7)]
    assert list(offset_index(bench).entries()) == list(index.entries())


def test_a_look_up_reads_as_much_in_an_index_a_hundred_times_longer(bench: Workbench) -> None:
    read = []
    for count in (100, 10_000):
        index = offset_index(bench, count)
        index.write()
        bench.files.read_bytes = 0
        index.position_before(BASE + 5 * count)
        read.append(bench.files.read_bytes)
        bench.remove_all(".index")
    assert read[1] <= 1.1 * read[0] + 8 * BLOCK_ENTRIES
    assert read[1] < 8 * (BLOCK_ENTRIES + 20)


def test_another_look_up_reads_one_block(bench: Workbench) -> None:
    index = offset_index(bench, 10_000)
    index.write()
    found = index.position_before(BASE + 70_000)
    bench.files.read_bytes = 0
    assert index.position_before(BASE + 70_000) == found
    assert bench.files.read_bytes == 8 * BLOCK_ENTRIES


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 256, 700])
def test_every_entry_is_found_and_what_lies_between(bench: Workbench, count: int) -> None:
    index = offset_index(bench, count)
    for _ in range(2):
        for number in range(count + 1):
            expected = 100 * number if number else 0
            assert index.position_before(BASE + 10 * number) == expected
            assert index.position_before(BASE + 10 * number + 9) == expected
            assert index.count_below(10 * number) == max(number - 1, 0)
        index.write()


def test_what_was_cut_and_grown_again_is_found_as_it_is_now(bench: Workbench) -> None:
    index = offset_index(bench, 700)
    assert index.position_before(BASE + 6_999) == 69_900
    index.truncate(300)
    for number in range(301, 701):
        index.add(BASE + 20 * number, number)
    assert index.position_before(BASE + 3_009) == 30_000
    assert [index.position_before(BASE + 20 * number) for number in range(301, 701)] == list(
        range(301, 701)
    )


def test_truncation_drops_what_lies_at_or_beyond_in_memory_and_on_disk(bench: Workbench) -> None:
    index = offset_index(bench, 20)
    index.truncate_to(BASE + 150)
    assert len(index) == 14
    index.write()
    index.truncate_to(BASE + 100)
    assert [offset for offset, _ in index.entries()] == [BASE + 10 * n for n in range(1, 10)]
    assert len(offset_index(bench)) == 9


def test_room_that_was_set_aside_is_no_entry(bench: Workbench) -> None:
    index = offset_index(bench, 5)
    index.write()
    bench.overwrite("i.index", 5 * 8, bytes(800))
    reopened = offset_index(bench)
    reopened.keep_valid(BASE + 1000, 10_000)
    assert len(reopened) == 5
    assert bench.files.size(bench.path("i.index")) == 40


def test_entries_that_cannot_be_true_are_dropped_with_all_that_follow(bench: Workbench) -> None:
    entry = Struct(">iI")
    for wrong in ((15, 350), (45, 250), (2000, 450), (45, 9000)):
        index = offset_index(bench, 6)
        index.write()
        bench.overwrite("i.index", 4 * 8, entry.pack(*wrong))
        reopened = offset_index(bench)
        reopened.keep_valid(BASE + 100, 1000)
        assert len(reopened) == 4, wrong
        bench.remove_all(".index")


def test_half_an_entry_at_the_end_is_cut(bench: Workbench) -> None:
    offset_index(bench, 3).write()
    bench.overwrite("i.index", 24, b"\1\2\3")
    index = offset_index(bench)
    assert len(index) == 3
    index.trim()
    assert bench.files.size(bench.path("i.index")) == 24


def test_an_index_that_finds_no_room_keeps_its_entries_and_writes_them_later(
    disk: SimDisk, sim_bench: Workbench
) -> None:
    disk.faults.fail_next_write("*.index", error=errno.ENOSPC)
    index = offset_index(sim_bench, PENDING_BYTES_MAX // 8)
    assert index.written_bytes == 0
    assert index.position_before(BASE + 105) == 1000
    index.write()
    assert len(offset_index(sim_bench)) == PENDING_BYTES_MAX // 8


# --- times ------------------------------------------------------------------------------------


def test_times_that_do_not_grow_are_not_entered(bench: Workbench) -> None:
    index = time_index(bench)
    for timestamp_ms, offset in ((5, 1001), (9, 1003), (9, 1005), (7, 1006), (20, 1010)):
        index.add(timestamp_ms, offset)
    assert list(index.entries()) == [(5, 1001), (9, 1003), (20, 1010)]
    assert index.last == (20, 1010)


def test_a_time_is_looked_for_from_the_last_that_is_too_early(bench: Workbench) -> None:
    index = time_index(bench)
    for number in range(1, 6):
        index.add(10 * number, BASE + number)
    found = [index.offset_before(time) - BASE for time in (1, 10, 11, 20, 45, 50, 51)]
    assert found == [0, 0, 1, 1, 4, 4, 5]


def test_a_cut_time_index_remembers_the_largest_time_that_is_left(bench: Workbench) -> None:
    index = time_index(bench)
    for number in range(1, 6):
        index.add(10 * number, BASE + number)
    index.truncate_to(BASE + 3)
    assert index.last == (20, BASE + 2)
    index.truncate(0)
    assert index.last == (-1, BASE)


def test_a_time_index_tells_whether_it_lost_more_than_what_lies_beyond(bench: Workbench) -> None:
    index = time_index(bench)
    for number in range(1, 6):
        index.add(10 * number, BASE + number)
    index.write()
    assert time_index(bench).keep_valid(BASE + 3)
    assert time_index(bench).last == (20, BASE + 2)
    bench.overwrite("t.timeindex", 0, bytes(12))
    assert not time_index(bench).keep_valid(BASE + 3)


# --- aborted transactions ---------------------------------------------------------------------


def test_aborted_transactions_are_kept_in_the_order_of_their_markers(bench: Workbench) -> None:
    path = bench.path("x.txnindex")
    index = TransactionIndex(FilePool(bench.files), path)
    entries = [AbortedTransaction(7, 10, 20, 5), AbortedTransaction(8, 5, 30, 31)]
    for entry in entries:
        index.add(entry)
    assert index.last_offset == 30
    index.write()
    reopened = TransactionIndex(FilePool(bench.files), path)
    assert list(reopened.entries()) == entries
    reopened.truncate_to(30)
    assert list(reopened.entries()) == entries[:1]


def test_zeros_are_no_aborted_transaction(bench: Workbench) -> None:
    path = bench.path("x.txnindex")
    TransactionIndex(FilePool(bench.files), path).write()
    bench.overwrite("x.txnindex", 0, bytes(68))
    index = TransactionIndex(FilePool(bench.files), path)
    assert len(index) == 2
    index.keep_valid(100)
    assert len(index) == 0
    assert index.last_offset == -1


def test_a_search_stops_once_at_a_cold_index_however_many_of_its_pages_are_cold() -> None:
    disk = SimDisk()
    pool = FilePool(disk.process())
    index = OffsetIndex(pool, "/i.index", BASE)
    for number in range(1, 20_001):
        index.add(BASE + 10 * number, 100 * number)
    index.write()
    disk.chill()
    with pytest.raises(ColdRead) as stopped:
        index.position_before(BASE + 77_777, read_warm)
    stopped.value.needed.warm()
    assert index.position_before(BASE + 77_777, read_warm) == 777_700
    assert disk.pages_waited_for == 0
