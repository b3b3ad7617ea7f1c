"""A segment finds by offset and by time what a scan of all of it would find."""

from struct import Struct

import pytest

from ottla.protocol.batch import records
from ottla.storage.log.batch_scan import Placed
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.log import Log
from ottla.storage.log.segment import Segment
from ottla.storage.log.time_search import TimestampOffset
from tests.support.storage.workbench import NOW_MS, Workbench, append, batch_of, fill
from tests.support.time_searches import largest_timestamp, offset_for_time

CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=200)
INDEXES = (".index", ".timeindex")


def scan(segment: Segment, offset: int) -> Placed | None:
    """The slow way."""
    return next((p for p in segment.walk() if p.header.last_offset >= offset), None)


def index_entries(log: Log) -> list[list[tuple[int, int]]]:
    return [
        list(index.entries())
        for segment in log.segments
        for index in (segment.offsets, segment.times)
    ]


def test_a_look_up_finds_what_a_scan_finds_at_every_offset(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    for number in range(60):
        batch = batch_of(*[NOW_MS] * (number % 4 + 1), base_offset=log.end_offset + number % 3)
        log.append_replicated(batch)
    assert len(log.segments) > 1
    assert any(len(segment.offsets) > 3 for segment in log.segments)
    for segment in log.segments:
        for offset in range(segment.base_offset, log.end_offset + 1):
            assert segment.find(offset) == scan(segment, offset)


def test_a_look_up_reads_no_more_in_a_log_a_hundred_times_longer(bench: Workbench) -> None:
    config = LogConfig(index_interval_bytes=4096)
    log = bench.open(config)
    most = []
    for count in (100, 9_900):
        fill(log, count)
        log.flush()
        reopened = bench.open(config)
        read = []
        for offset in range(0, log.end_offset, log.end_offset // 20):
            bench.files.read_bytes = 0
            assert reopened.read(offset, bytes_max=1) is not None
            read.append(bench.files.read_bytes)
        most.append(max(read))
    assert log.size_bytes > 1_000_000
    assert most[1] <= most[0] + 8192
    assert most[1] < 20_000


def test_missing_indexes_are_made_anew_and_equal(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    fill(log, 100)
    log.close()
    expected = index_entries(bench.open(CONFIG, is_clean=True))
    assert sum(map(len, expected)) > 20
    for is_clean in (True, False):
        bench.remove_all(*INDEXES)
        assert index_entries(bench.open(CONFIG, is_clean=is_clean)) == expected


@pytest.mark.parametrize("position", [64, 3333, 1 << 20])
def test_an_index_that_misleads_is_found_out(bench: Workbench, position: int) -> None:
    log = bench.open(CONFIG)
    fill(log, 100)
    log.close()
    first = bench.names(".index")[0]
    for entry in range(8):
        bench.overwrite(first, entry * 8 + 4, Struct(">I").pack(position + entry))
    reopened = bench.open(CONFIG, is_clean=True)
    segment = reopened.segments[0]
    for offset in range(reopened.segments[1].base_offset):
        assert segment.find(offset) == scan(segment, offset)


def test_a_segment_remembers_the_largest_time_when_it_is_cut(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    for number in range(20):
        append(log, batch_of(NOW_MS + (1000 if number == 12 else number)))
    segment = log.segments[0]
    assert segment.largest_timestamp == (NOW_MS + 1000, 12)
    log.truncate(12)
    assert segment.largest_timestamp == (NOW_MS + 11, 11)
    log.truncate(0)
    assert segment.largest_timestamp[0] == -1
    assert segment.first_timestamp_ms is None


def test_a_new_segment_removes_what_an_earlier_one_of_its_name_left(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    fill(log, 30)
    log.segments[0].seal()
    segment = Segment.create(FilePool(bench.files), bench.directory, 0, CONFIG)
    assert segment.size_bytes == 0
    assert len(segment.offsets) == 0
    assert not segment.has_indexes


# --- by time ----------------------------------------------------------------------------------


def expected_for_time(log: Log, timestamp_ms: int) -> TimestampOffset | None:
    """The slow way: every record of every batch."""
    for segment in log.segments:
        walk = segment.walk()
        for placed in walk:
            for record in records(walk.batch(placed)):
                if record.timestamp >= timestamp_ms and record.offset >= log.start_offset:
                    epoch = placed.header.partition_leader_epoch
                    return TimestampOffset(record.timestamp, record.offset, epoch)
    return None


@pytest.mark.parametrize("start_offset", [0, 7, 31])
def test_a_time_is_found_where_a_scan_finds_it(bench: Workbench, start_offset: int) -> None:
    log = bench.open(LogConfig(segment_bytes=1000, index_interval_bytes=60))
    # Out of order, with ties, with gaps, with records that have no time.
    for number in range(40):
        times = [100 * (number * 7 % 40), 50 * number, -1, 50 * number]
        append(log, batch_of(*times[: number % 4 + 1]))
    log.advance_start(start_offset)
    for reopened in (log, bench.open(LogConfig(segment_bytes=1000, index_interval_bytes=60))):
        for timestamp_ms in (0, 1, 49, 50, 51, 777, 1950, 3899, 3900, 3901, 1 << 40):
            assert offset_for_time(reopened, timestamp_ms) == expected_for_time(log, timestamp_ms)


def test_times_before_the_first_and_after_the_last_record(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    assert offset_for_time(log, 0) is None
    append(log, batch_of(500, 600), leader_epoch=3)
    assert offset_for_time(log, 0) == TimestampOffset(500, 0, 3)
    assert offset_for_time(log, 501) == TimestampOffset(600, 1, 3)
    assert offset_for_time(log, 601) is None


def test_the_brokers_time_counts_where_it_stamped_it(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    append(log, batch_of(100, 200, log_append_time_ms=900))
    append(log, batch_of(100, 200, log_append_time_ms=950))
    assert offset_for_time(log, 200) == TimestampOffset(900, 0, 0)
    assert offset_for_time(log, 901) == TimestampOffset(950, 2, 0)


def test_the_largest_time_is_the_first_record_that_has_it(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_bytes=160))
    assert largest_timestamp(log) is None
    for times in ((50, 900), (900, 20), (30,), (900, 40)):
        append(log, batch_of(*times))
    assert largest_timestamp(log) == TimestampOffset(900, 1, 0)


def test_the_largest_time_is_sought_from_the_start_of_the_log_on(bench: Workbench) -> None:
    log = bench.open(LogConfig())
    for times in ((900, 50, 60), (40,), (70, 10)):
        append(log, batch_of(*times))
    for start_offset, expected in ((1, (70, 4)), (4, (70, 4)), (5, (10, 5))):
        log.advance_start(start_offset)
        assert largest_timestamp(log) == TimestampOffset(*expected, 0)
    log.advance_start(6)
    assert largest_timestamp(log) is None


def test_records_without_any_time_have_no_largest(bench: Workbench) -> None:
    log = bench.open(CONFIG)
    append(log, batch_of(-1, -1))
    assert largest_timestamp(log) is None
    assert largest_timestamp(bench.open(CONFIG)) is None


def test_records_of_1970_are_found_after_a_crash(bench: Workbench) -> None:
    config = LogConfig(index_interval_bytes=1)
    log = bench.open(config)
    for timestamp_ms in (0, 5, 3, 4):
        append(log, batch_of(timestamp_ms))
    log.flush()
    bench.checkpoint(log)
    reopened = bench.open(config)
    assert largest_timestamp(reopened) == TimestampOffset(5, 1, 0)
    assert offset_for_time(reopened, 5) == TimestampOffset(5, 1, 0)
