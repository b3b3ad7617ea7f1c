"""A log appends at its end, reads anywhere, rolls, and shrinks at both ends."""

import pytest

from ottla.errors import ErrorCode, OffsetOutOfRange, PeerError
from ottla.protocol.batch import (
    PREFIX_BYTES,
    Marker,
    MarkerKind,
    build,
    build_marker,
    read_header,
)
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_slice import FileSlice
from ottla.storage.log.log import Log
from tests.support.storage.workbench import (
    NOW_MS,
    Workbench,
    append,
    batch_from,
    batch_of,
    content,
    end_transaction,
    fill,
    offsets,
)

DAY_MS = 86_400_000


def test_appending_gives_rising_offsets_and_stamps_the_leaders_epoch(bench: Workbench) -> None:
    log = bench.open()
    places = [append(log, batch_of(1, 2, 3), leader_epoch=epoch)[:2] for epoch in (4, 4, 6)]
    assert places == [(0, 2), (3, 5), (6, 8)]
    stored = content(log)
    header = read_header(stored, 2 * len(stored) // 3)
    assert (header.base_offset, header.partition_leader_epoch) == (6, 6)
    assert [tuple(entry) for entry in log.epochs.entries] == [(4, 0), (6, 6)]


def test_a_batch_is_stored_as_it_was_sent_but_for_its_prefix(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 3)
    sent = batch_of(NOW_MS, NOW_MS + 1, value=b"as it was")
    placed = append(log, sent)
    stored = log.read(placed.first_offset, bytes_max=1)
    assert stored is not None
    assert stored.read()[PREFIX_BYTES:] == sent[PREFIX_BYTES:]


def test_a_repeated_batch_gets_its_first_offset_and_writes_nothing(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 2)
    first = append(log, batch_from(7, 0, count=3))
    append(log, batch_from(7, 3))
    size = log.size_bytes
    again = append(log, batch_from(7, 0, count=3))
    assert again[:2] == first[:2] == (2, 4)
    assert again.duplicate_timestamp_ms == NOW_MS
    assert log.size_bytes == size


def test_a_hole_in_a_producers_sequence_changes_nothing(bench: Workbench) -> None:
    log = bench.open()
    append(log, batch_from(7, 0))
    with pytest.raises(PeerError) as refused:
        append(log, batch_from(7, 2))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 1


def test_a_read_in_the_middle_of_a_batch_gives_the_whole_batch(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 1)
    append(log, batch_of(1, 2, 3))
    found = log.read(2, bytes_max=1 << 20)
    assert found is not None
    assert read_header(found.read()).base_offset == 1


def test_the_first_batch_is_whole_whatever_the_limit_and_the_last_may_be_cut(
    bench: Workbench,
) -> None:
    log = bench.open(LogConfig())
    fill(log, 3)
    size = log.size_bytes // 3
    for bytes_max, expected in ((1, size), (size + 5, size + 5), (1 << 20, 3 * size)):
        found = log.read(0, bytes_max=bytes_max)
        assert found is not None
        assert len(found) == expected


def test_a_read_stops_at_its_bound_between_batches(bench: Workbench) -> None:
    log = bench.open(LogConfig())
    for _ in range(4):
        append(log, batch_of(1, 2))
    size = log.size_bytes // 4
    for bound, expected in ((8, 4), (7, 3), (6, 3), (3, 1), (2, 1)):
        found = log.read(0, bytes_max=1 << 20, end_offset=bound)
        assert found is not None
        assert len(found) == expected * size
    assert log.read(0, bytes_max=1 << 20, end_offset=1) is None
    assert log.read(4, bytes_max=1 << 20, end_offset=4) is None


def test_only_offsets_outside_of_the_log_are_out_of_range(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 10)
    log.advance_start(4)
    assert log.read(10, bytes_max=1) is None
    assert log.read(4, bytes_max=1) is not None
    for offset in (-1, 3, 11):
        with pytest.raises(OffsetOutOfRange) as refused:
            log.read(offset, bytes_max=1)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_reads_go_on_across_segments_and_across_the_holes_of_compaction(bench: Workbench) -> None:
    log = bench.open()
    sent = b""
    for base_offset in (0, 1, 50, 51, 300, 7000):
        batch = batch_of(NOW_MS, base_offset=base_offset, leader_epoch=2, value=b"v" * 300)
        log.append_replicated(batch)
        sent += batch
    assert len(log.segments) > 1
    assert content(log) == sent
    for offset in (2, 49, 52, 299, 301, 6999):
        found = log.read(offset, bytes_max=1)
        assert found is not None
        assert read_header(found.read()).base_offset == min(
            base for base in (50, 300, 7000) if base >= offset
        )


def test_several_batches_of_a_leader_are_appended_as_they_are(bench: Workbench) -> None:
    log = bench.open()
    sent = b"".join(batch_of(5, base_offset=offset, leader_epoch=3) for offset in range(5))
    log.append_replicated(sent)
    assert content(log) == sent
    assert log.epochs.latest == (3, 0)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda batch: batch[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE),
        (lambda batch: batch[:16] + b"\1" + batch[17:], ErrorCode.CORRUPT_MESSAGE),
        (lambda batch: batch[:8] + bytes(4) + batch[12:], ErrorCode.CORRUPT_MESSAGE),
        (lambda batch: bytes(8) + batch[8:], ErrorCode.OFFSET_OUT_OF_RANGE),
        (lambda batch: b"\1" + batch[1:], ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
    ids=["a byte changed", "old magic", "an impossible length", "behind", "far beyond"],
)
def test_what_a_leader_cannot_have_written_is_refused(
    sim_bench: Workbench, spoil: object, code: ErrorCode
) -> None:
    log = sim_bench.open()
    fill(log, 5)
    assert callable(spoil)
    with pytest.raises(PeerError) as refused:
        log.append_replicated(spoil(bytes(batch_of(5, base_offset=5))))
    assert refused.value.code is code
    assert log.end_offset == 5


# --- rolling ----------------------------------------------------------------------------------


def test_a_segment_is_rolled_before_it_grows_too_large(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_bytes=500))
    fill(log, 20)
    assert len(log.segments) > 3
    assert all(0 < segment.size_bytes <= 500 for segment in log.segments)
    assert offsets(log) == list(range(20))


def test_a_segment_is_rolled_when_its_records_span_too_much_time(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_ms=1000))
    for timestamp_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 2001, NOW_MS + 2002):
        append(log, batch_of(timestamp_ms))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_a_segment_of_records_without_time_is_rolled_by_the_clock(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_ms=1000))
    for passed_ms in (0, 1000, 1):
        bench.clock.advance(ms=passed_ms)
        append(log, batch_of(-1))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


@pytest.mark.parametrize("step_ms", [-DAY_MS, 365 * DAY_MS])
def test_a_wall_clock_that_is_set_makes_no_segment_older_or_younger(
    bench: Workbench, step_ms: int
) -> None:
    log = bench.open(LogConfig(segment_ms=1000))
    append(log, batch_of(-1))
    bench.clock.jump_wall(step_ms)
    bench.clock.advance(ms=1000)
    append(log, batch_of(-1))
    assert [segment.base_offset for segment in log.segments] == [0]
    bench.clock.advance(ms=1)
    append(log, batch_of(-1))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_is_rolled_when_its_index_is_full(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_index_bytes=48, index_interval_bytes=1))
    fill(log, 12)
    assert len(log.segments) > 2
    assert all(len(segment.offsets) <= 6 for segment in log.segments)
    assert all(len(segment.times) <= 4 for segment in log.segments)


def test_a_segment_is_rolled_before_its_offsets_overflow_the_index(bench: Workbench) -> None:
    log = bench.open(LogConfig(index_interval_bytes=1))
    for base_offset, last_offset_delta in ((0, 2**31 - 2), (2**31 - 1, 0), (2**31, 0)):
        batch = build([], base_offset=base_offset, last_offset_delta=last_offset_delta)
        log.append_replicated(batch)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]
    assert offsets(log) == [0, 2**31 - 1, 2**31]


# --- shrinking --------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", range(25))
def test_a_truncated_log_is_what_it_was_before_it_grew(sim_bench: Workbench, offset: int) -> None:
    log = sim_bench.open(LogConfig(segment_bytes=400, index_interval_bytes=80))
    for _ in range(8):
        append(log, batch_of(NOW_MS, NOW_MS, NOW_MS))
    before = content(log)
    kept = min(offset, 24) // 3
    log.truncate(offset)
    assert log.end_offset == 3 * kept
    assert content(log) == before[: len(before) // 8 * kept]
    assert append(log, batch_of(1)).first_offset == 3 * kept
    assert offsets(sim_bench.open()) == [*range(0, 3 * kept, 3), 3 * kept]


def test_truncating_below_the_start_moves_the_start(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 30)
    log.drop_segments(2)
    start_offset = log.start_offset
    log.truncate(start_offset - 3)
    assert (log.start_offset, log.end_offset) == (start_offset - 3, start_offset - 3)
    fill(log, 2)
    reopened = bench.open()
    assert offsets(reopened) == [start_offset - 3, start_offset - 2]


def test_a_log_truncated_into_a_hole_ends_where_it_will_be_found_to_end(bench: Workbench) -> None:
    log = bench.open()
    for base_offset in (0, 50):
        log.append_replicated(batch_of(1, base_offset=base_offset, leader_epoch=0))
    log.flush()
    log.truncate(30)
    assert log.end_offset == 1
    assert bench.open().end_offset == 1


def slice_at(log: Log, offset: int, bytes_max: int) -> FileSlice:
    found = log.read(offset, bytes_max=bytes_max)
    assert found is not None
    return found


def test_a_slice_knows_whether_its_records_were_truncated(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 30)
    assert len(log.segments) > 2
    active = log.segments[-1].base_offset
    below, across = slice_at(log, active, 1), slice_at(log, active, 1 << 20)
    earlier = slice_at(log, 0, 1 << 20)
    log.truncate(active + 1)
    fill(log, 3)
    later = slice_at(log, active, 1 << 20)
    assert [each.is_cut for each in (earlier, below, across, later)] == [False, False, True, False]
    log.truncate(active)
    assert [each.is_cut for each in (earlier, below, across, later)] == [False, True, True, True]
    log.truncate(1)
    assert earlier.is_cut
    assert earlier.without(5).is_cut


def test_truncation_rolls_the_producers_back(bench: Workbench) -> None:
    log = bench.open()
    for sequence in range(4):
        append(log, batch_from(7, sequence))
    append(log, batch_from(8, 0, transactional=True))
    log.truncate(2)
    entry = log.producers.get(7)
    assert entry is not None
    assert entry.last_sequence == 1
    assert log.producers.get(8) is None
    assert log.producers.last_stable_offset(log.end_offset) == 2
    assert append(log, batch_from(7, 2)).first_offset == 2


def test_truncation_forgets_the_epochs_and_aborts_that_it_cuts(bench: Workbench) -> None:
    log = bench.open()
    append(log, batch_from(7, 0, transactional=True))
    end_transaction(log, 7, MarkerKind.ABORT)
    append(log, batch_of(1), leader_epoch=3)
    log.truncate(1)
    assert [entry.epoch for entry in log.epochs.entries] == [0]
    assert log.aborted_transactions(0, 10) == []


@pytest.mark.parametrize("beyond", [0, 1, 100])
def test_a_truncation_that_cuts_no_record_still_cuts_the_epoch_cache(
    bench: Workbench, beyond: int
) -> None:
    """KAFKA-10706: a leader began an epoch, wrote nothing in it, and follows another one now."""
    log = bench.open()
    append(log, batch_of(1, 2), leader_epoch=3)
    log.begin_epoch(5)
    log.truncate(log.end_offset + beyond)
    assert [tuple(entry) for entry in log.epochs.entries] == [(3, 0)]
    assert offsets(log) == [0]
    # The new leader has more of epoch 3: what it sends is not of epoch 5.
    log.append_replicated(batch_of(3, base_offset=2, leader_epoch=3))
    assert log.epochs.epoch_at(2) == 3


@pytest.mark.parametrize("is_flushed", [True, False])
def test_an_epoch_that_wrote_nothing_does_not_come_back_with_the_next_start(
    bench: Workbench, is_flushed: bool
) -> None:
    log = bench.open()
    append(log, batch_of(1, 2), leader_epoch=3)
    log.begin_epoch(5)
    log.flush()
    log.truncate(log.end_offset)
    log.append_replicated(batch_of(3, base_offset=2, leader_epoch=3))
    if is_flushed:
        log.flush()
        bench.checkpoint(log)
    assert [tuple(entry) for entry in bench.open().epochs.entries] == [(3, 0)]


def test_the_start_of_a_log_moves_on_and_stays_there(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 30)
    log.advance_start(7)
    log.advance_start(3)
    assert offsets(log) == list(range(7, 30))
    assert bench.open().start_offset == 7
    with pytest.raises(OffsetOutOfRange):
        log.advance_start(31)


def test_dropped_segments_are_renamed_and_never_the_active_one(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 30)
    base_offsets = [segment.base_offset for segment in log.segments]
    left = log.drop_segments(2)
    assert log.start_offset == base_offsets[2]
    assert all(path.endswith(".deleted") and bench.files.exists(path) for path in left)
    with pytest.raises(ValueError, match="cannot be dropped"):
        log.drop_segments(len(log.segments))
    reopened = bench.open()
    assert offsets(reopened) == list(range(base_offsets[2], 30))
    assert not any(bench.files.exists(path) for path in left)


def test_retention_is_told_the_largest_time_of_each_segment(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_bytes=160))
    for timestamp_ms in (500, 900, 100, 200, 50, 60):
        append(log, batch_of(timestamp_ms))
    summaries = log.summaries()
    assert [summary.largest_timestamp_ms for summary in summaries] == [900, 200, 60]
    assert [summary.is_active for summary in summaries] == [False, False, True]
    assert [summary.end_offset for summary in bench.open().summaries()] == [2, 4, 6]


# --- transactions -----------------------------------------------------------------------------


def test_aborted_transactions_and_the_last_stable_offset_survive_a_restart(
    bench: Workbench,
) -> None:
    log = bench.open()
    append(log, batch_from(7, 0, transactional=True))
    append(log, batch_from(8, 0, transactional=True))
    fill(log, 20)
    end_transaction(log, 7, MarkerKind.ABORT)
    append(log, batch_from(9, 0, transactional=True))
    end_transaction(log, 9, MarkerKind.COMMIT)
    aborted = log.aborted_transactions(0, log.end_offset)
    assert [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in aborted] == [
        (7, 0, 22)
    ]
    reopened = bench.open()
    assert reopened.aborted_transactions(0, log.end_offset) == aborted
    assert reopened.aborted_transactions(23, log.end_offset) == []
    assert reopened.producers.last_stable_offset(log.end_offset) == 1
    end_transaction(reopened, 8, MarkerKind.COMMIT)
    end = reopened.end_offset
    assert reopened.producers.last_stable_offset(end) == end


def transactional_log(bench: Workbench) -> Log:
    """Producer 7 has an open transaction from offset 1 on, through several segments."""
    log = bench.open()
    append(log, batch_of(1))
    append(log, batch_from(7, 0, transactional=True))
    fill(log, 40)
    append(log, batch_from(7, 1, transactional=True))
    assert len(log.segments) > 3
    return log


def stable_offset(log: Log) -> int:
    return log.producers.last_stable_offset(log.end_offset)


@pytest.mark.parametrize("kind", MarkerKind)
@pytest.mark.parametrize("version", [0, 2])
def test_truncation_across_a_marker_opens_its_transaction_again(
    bench: Workbench, kind: MarkerKind, version: int
) -> None:
    log = transactional_log(bench)
    marker_offset = log.end_offset
    marker = Marker(kind, 0)
    batch = build_marker(
        marker,
        producer_id=7,
        producer_epoch=1 if version else 0,
        timestamp_ms=NOW_MS,
    )
    header = read_header(batch)

    def end() -> None:
        log.append_marker(batch, header, marker, leader_epoch=0, transaction_version=version)

    end()
    aborted = log.aborted_transactions(0, log.end_offset)
    append(log, batch_of(2))
    assert stable_offset(log) == log.end_offset
    log.truncate(marker_offset)
    assert stable_offset(log) == 1
    assert log.aborted_transactions(0, log.end_offset) == []
    entry = log.producers.get(7)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, entry.transaction_first_offset) == (0, 1, 1)
    end()
    assert stable_offset(log) == log.end_offset
    assert log.aborted_transactions(0, log.end_offset) == aborted
    assert bool(aborted) == (kind is MarkerKind.ABORT)


@pytest.mark.parametrize("keeps_snapshots", [True, False])
def test_retention_below_an_open_transaction_leaves_it_open(
    bench: Workbench, keeps_snapshots: bool
) -> None:
    log = transactional_log(bench)
    log.flush()
    log.drop_segments(len(log.segments) - 2)
    start_offset = log.start_offset
    assert start_offset > 1
    assert stable_offset(log) == start_offset
    bench.checkpoint(log)
    if not keeps_snapshots:
        bench.remove_all(".snapshot")
    log = bench.open()
    entry = log.producers.get(7)
    assert entry is not None
    # Without a snapshot the transaction is known by its remaining records only.
    first_offset = 1 if keeps_snapshots else log.end_offset - 1
    assert entry.transaction_first_offset == first_offset
    assert stable_offset(log) == max(first_offset, start_offset)
    end_transaction(log, 7, MarkerKind.ABORT)
    (aborted,) = log.aborted_transactions(start_offset, log.end_offset)
    assert (aborted.producer_id, aborted.first_offset) == (7, first_offset)
    assert stable_offset(log) == log.end_offset


def test_deleted_records_of_an_open_transaction_still_need_its_marker(bench: Workbench) -> None:
    log = transactional_log(bench)
    log.advance_start(log.end_offset)
    assert stable_offset(log) == log.end_offset
    append(log, batch_of(2))
    assert stable_offset(log) == log.start_offset, "the transaction is still open"
    bench.checkpoint(log)
    log = bench.open()
    assert stable_offset(log) == log.start_offset
    end_transaction(log, 7, MarkerKind.COMMIT)
    assert stable_offset(log) == log.end_offset


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_open_transaction_outlives_restarts_and_the_expiry_of_producers(
    bench: Workbench, is_clean: bool
) -> None:
    log = transactional_log(bench)
    append(log, batch_from(8, 0))
    if is_clean:
        log.close()
        bench.checkpoint(log)
    log = bench.open(is_clean=is_clean)
    assert log.producers.expire(NOW_MS + 10**9, 1) == 1
    assert [entry.producer_id for entry in log.producers] == [7]
    assert stable_offset(log) == 1
    assert append(log, batch_from(7, 2, transactional=True)).duplicate_timestamp_ms is None
    end_transaction(log, 7, MarkerKind.COMMIT)
    assert stable_offset(log) == log.end_offset
    assert log.producers.expire(NOW_MS + 10**9, 1) == 1
