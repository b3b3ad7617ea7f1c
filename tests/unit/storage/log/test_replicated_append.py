"""A follower writes what a leader sent: as it is, and many batches by one write."""

import errno
from collections.abc import Callable

import pytest

from ottla.errors import ErrorCode, LogOffline, PeerError
from ottla.protocol.batch import Marker, MarkerKind, Record, build, build_marker, read_header
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from tests.sim.seams.disk import SimDisk
from tests.support.protocol.stamping import stamp
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

WIDE = LogConfig(index_interval_bytes=100)


def sent(first: int, end: int, *, leader_epoch: int = 3) -> list[bytes]:
    """One record per batch, a millisecond apart."""
    return [
        bytes(batch_of(NOW_MS + offset, base_offset=offset, leader_epoch=leader_epoch))
        for offset in range(first, end)
    ]


def writes_of(log: Log, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the writes to the active segment, from now on."""
    sizes: list[int] = []
    file = log.segments[-1].file
    write_at = file.write_at

    def counted(position: int, parts: list[bytes]) -> int:
        sizes.append(sum(map(len, parts)))
        return write_at(position, parts)

    monkeypatch.setattr(file, "write_at", counted)
    return sizes


def test_the_batches_of_one_fetch_are_one_write(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = bench.open(WIDE)
    log.append_replicated(b"".join(sent(0, 1)))
    writes = writes_of(log, monkeypatch)
    answer = b"".join(sent(1, 60))
    log.append_replicated(answer)
    assert writes == [len(answer)]
    assert content(log) == b"".join(sent(0, 60))


def test_a_log_written_in_fetches_is_the_log_written_batch_by_batch(sim_bench: Workbench) -> None:
    """Offsets, indexes, epochs and times are the same, wherever the segments roll."""
    config = LogConfig(segment_bytes=1500, index_interval_bytes=100, tail_batches_max=8)
    batches = [*sent(0, 25), *sent(25, 40, leader_epoch=4), *sent(45, 90, leader_epoch=7)]
    together = sim_bench.open(config)
    for first in range(0, len(batches), 17):
        together.append_replicated(b"".join(batches[first : first + 17]))
    single = Workbench(SimDisk(1).process(), "/t-1").open(config)
    for batch in batches:
        single.append_replicated(batch)
    assert content(together) == content(single) == b"".join(batches)
    assert together.epochs == single.epochs
    assert [tuple(entry) for entry in together.epochs.entries] == [(3, 0), (4, 25), (7, 40)]
    assert together.last_written_epoch == 7
    assert together.messages_unflushed == single.messages_unflushed == len(batches)
    for one, other in zip(together.segments, single.segments, strict=True):
        assert (one.base_offset, one.size_bytes) == (other.base_offset, other.size_bytes)
        assert (list(one.offsets), list(one.times)) == (list(other.offsets), list(other.times))
        assert one.largest_timestamp == other.largest_timestamp


def test_a_segment_rolls_in_the_middle_of_a_fetch(bench: Workbench) -> None:
    log = bench.open(LogConfig(segment_bytes=500))
    log.append_replicated(b"".join(sent(0, 40)))
    assert len(log.segments) > 5
    assert all(0 < segment.size_bytes <= 500 for segment in log.segments)
    assert offsets(log) == offsets(bench.open()) == list(range(40))


def test_producers_and_aborted_transactions_are_those_of_the_leader(sim_bench: Workbench) -> None:
    leader = sim_bench.open(WIDE)
    for sequence in range(3):
        append(leader, batch_from(7, sequence, transactional=True))
        append(leader, batch_from(8, sequence))
    end_transaction(leader, 7, MarkerKind.ABORT)
    append(leader, batch_from(9, 0, transactional=True))
    follower = Workbench(SimDisk(1).process(), "/t-1").open(WIDE)
    follower.append_replicated(content(leader))
    assert follower.producers == leader.producers
    assert follower.producers.first_unstable_offset == 7
    assert follower.aborted_transactions(0, 10) == leader.aborted_transactions(0, 10) != []
    follower.append_replicated(b"".join(sent(8, 12)))
    assert follower.producers.map_end_offset == 12


@pytest.mark.parametrize("cut_bytes", [1, 10, 61, 62, 69])
def test_a_last_batch_that_the_fetch_limit_cut_is_left_out(
    bench: Workbench, cut_bytes: int
) -> None:
    log = bench.open(WIDE)
    answer = b"".join(sent(0, 5))
    log.append_replicated(answer[:-cut_bytes])
    assert offsets(log) == [0, 1, 2, 3]
    log.append_replicated(b"".join(sent(4, 6)))
    assert offsets(log) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("size", [0, 1, 40, 61, 69])
def test_an_answer_without_a_whole_batch_changes_nothing(sim_bench: Workbench, size: int) -> None:
    log = sim_bench.open()
    fill(log, 2)
    log.append_replicated(sent(2, 3)[0][:size])
    assert (log.end_offset, offsets(log)) == (2, [0, 1])


def damaged(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def repeated(batch: bytes) -> bytes:
    return bytes(8) + batch[8:]


def of_unknown_type(batch: bytes) -> bytes:
    control = build(
        [Record(3, NOW_MS, b"\0\0\0\x07", b"")], base_offset=3, leader_epoch=3, control=True
    )
    return bytes(control)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (damaged, ErrorCode.CORRUPT_MESSAGE),
        (repeated, ErrorCode.OFFSET_OUT_OF_RANGE),
        (of_unknown_type, ErrorCode.INVALID_RECORD),
    ],
)
def test_batches_before_a_bad_one_are_appended(
    bench: Workbench, spoil: Callable[[bytes], bytes], code: ErrorCode
) -> None:
    log = bench.open(WIDE)
    batches = sent(0, 6)
    batches[3] = spoil(batches[3])
    with pytest.raises(PeerError) as refused:
        log.append_replicated(b"".join(batches))
    assert refused.value.code is code
    assert offsets(log) == [0, 1, 2]
    log.append_replicated(b"".join(sent(3, 6)))
    assert offsets(bench.open()) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("taken_bytes", [0, 1, 100, 150])
def test_a_full_disk_leaves_the_log_as_it_was(taken_bytes: int) -> None:
    disk = SimDisk(0)
    log = Workbench(disk.process(), "/t-0").open(WIDE)
    log.append_replicated(b"".join(sent(0, 3)))
    before = content(log), log.epochs.entries, log.messages_unflushed, log.producers.map_end_offset
    pattern = "/t-0/*.log"
    if taken_bytes:
        disk.faults.shorten_next_write(pattern, taken_bytes)
    disk.faults.fail_next_write(pattern, after=1 if taken_bytes else 0)
    with pytest.raises(OSError, match=r".*") as refused:
        log.append_replicated(b"".join(sent(3, 9, leader_epoch=5)))
    assert refused.value.errno == errno.ENOSPC
    assert before == (
        content(log),
        log.epochs.entries,
        log.messages_unflushed,
        log.producers.map_end_offset,
    )
    assert log.segments[-1].file.size() == log.size_bytes
    log.append_replicated(b"".join(sent(3, 9, leader_epoch=5)))
    assert offsets(log) == list(range(9))
    assert [tuple(entry) for entry in log.epochs.entries] == [(3, 0), (5, 3)]


def test_a_failed_disk_takes_the_followers_log_offline() -> None:
    disk = SimDisk(0)
    log = Workbench(disk.process(), "/t-0").open(WIDE)
    log.append_replicated(b"".join(sent(0, 3)))
    disk.faults.fail_next_write("/t-0/*.log", error=errno.EIO)
    with pytest.raises(LogOffline):
        log.append_replicated(b"".join(sent(3, 9)))
    assert log.offline is not None


# --- a leader's log that starts within a batch -----------------------------------------------


def batch_3_to_7(*, leader_epoch: int = 4) -> bytes:
    return bytes(batch_of(*range(1, 6), base_offset=3, leader_epoch=leader_epoch))


def begun_at(bench: Workbench, offset: int) -> Log:
    log = bench.open(WIDE)
    log.restart_at(offset)
    return log


def test_an_empty_log_takes_the_batch_within_which_it_begins(bench: Workbench) -> None:
    """The leader's log starts at 5 after DeleteRecords; its first batch holds 3 to 7."""
    log = begun_at(bench, 5)
    log.append_replicated(batch_3_to_7() + b"".join(sent(8, 10, leader_epoch=4)))
    assert (log.start_offset, log.end_offset) == (5, 10)
    assert offsets(log) == [3, 8, 9]
    assert [tuple(entry) for entry in log.epochs.entries] == [(4, 5)]
    reopened = bench.open(WIDE)
    assert (reopened.start_offset, offsets(reopened)) == (5, [3, 8, 9])
    assert [tuple(entry) for entry in reopened.epochs.entries] == [(4, 5)]


def test_only_an_empty_log_takes_a_batch_that_begins_before_its_end(bench: Workbench) -> None:
    log = bench.open(WIDE)
    fill(log, 5)
    log.advance_start(5)
    with pytest.raises(PeerError) as refused:
        log.append_replicated(batch_3_to_7())
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("base_offset", [0, 8])
def test_a_batch_that_ends_before_the_log_is_refused(bench: Workbench, base_offset: int) -> None:
    log = begun_at(bench, 13)
    behind = batch_of(1, 2, 3, base_offset=base_offset, leader_epoch=4)
    with pytest.raises(PeerError):
        log.append_replicated(behind)
    assert log.end_offset == 13


def test_a_batch_across_the_start_that_found_no_room_is_taken_later() -> None:
    disk = SimDisk(0)
    log = begun_at(Workbench(disk.process(), "/t-0"), 5)
    disk.faults.fail_next_write("/t-0/*.log")
    with pytest.raises(OSError, match=r".*"):
        log.append_replicated(batch_3_to_7())
    assert (log.start_offset, log.end_offset) == (5, 5)
    log.flush()
    log.append_replicated(batch_3_to_7())
    assert (log.start_offset, log.end_offset, offsets(log)) == (5, 8, [3])


@pytest.mark.parametrize("seed", range(30))
def test_a_power_loss_never_makes_damage_of_a_batch_across_the_start(seed: int) -> None:
    """Its offsets lie on both sides of the start. None of it counts as flushed before a flush."""
    disk = SimDisk(seed)
    bench = Workbench(disk.process(), "/t-0")
    disk.process().sync_dir("/")
    log = begun_at(bench, 5)
    flush = log.begin_flush()
    log.append_replicated(batch_3_to_7())
    flush.run()
    log.end_flush(flush)
    bench.checkpoint(log)
    disk.power_loss()
    bench.restart(disk.process())
    reopened = bench.open(WIDE)
    assert reopened.start_offset == 5
    assert offsets(reopened) in ([], [3])


def test_a_marker_is_replayed_by_a_follower(sim_bench: Workbench) -> None:
    log = sim_bench.open(WIDE)
    data = build(
        [Record(0, NOW_MS, b"k", b"v")],
        leader_epoch=0,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    marker = build_marker(
        Marker(MarkerKind.ABORT, 0), producer_id=7, producer_epoch=0, timestamp_ms=NOW_MS
    )
    stamp(marker, 1, 0)
    log.append_replicated(bytes(data + marker))
    assert read_header(bytes(marker)).is_control
    assert [entry.last_offset for entry in log.aborted_transactions(0, 2)] == [1]
    assert log.producers.first_unstable_offset is None
