"""After a crash a log is what was flushed, and as much more as makes sense."""

import pytest

from ottla.errors import CorruptLog
from ottla.protocol.batch import MarkerKind
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from tests.sim.seams.disk import SimDisk
from tests.support.storage.workbench import (
    Workbench,
    append,
    batch_from,
    batch_of,
    content,
    end_transaction,
    fill,
    offsets,
)

FIRST = "00000000000000000000.log"
ONE = LogConfig(index_interval_bytes=200)


def flushed_to(bench: Workbench, count: int, more: int) -> Log:
    """A log of one segment, of which the first `count` records are flushed."""
    log = bench.open(ONE)
    fill(log, count)
    log.flush()
    bench.checkpoint(log)
    fill(log, more)
    return log


def record_bytes(log: Log) -> int:
    return log.size_bytes // log.end_offset


def test_an_empty_directory_becomes_an_empty_log(bench: Workbench) -> None:
    log = bench.open()
    assert (log.start_offset, log.end_offset) == (0, 0)
    assert bench.names(".log") == [FIRST]


def test_everything_is_there_again_after_a_crash_of_the_process(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 50)
    reopened = bench.open()
    assert content(reopened) == content(log)
    assert bench.recovery.cut_bytes == 0


@pytest.mark.parametrize(
    "torn", [b"\0" * 500, b"\0" * 30, b"garbage" * 20, bytes(batch_of(1))[:-3]]
)
def test_a_torn_tail_is_cut(bench: Workbench, torn: bytes) -> None:
    log = flushed_to(bench, 5, 5)
    before = content(log)
    bench.overwrite(FIRST, log.size_bytes, torn)
    reopened = bench.open(ONE)
    assert content(reopened) == before
    assert bench.recovery.cut_bytes == len(torn)
    assert bench.recovery.cut_because is not None
    assert FIRST in bench.recovery.cut_because
    assert bench.files.size(bench.path(FIRST)) == len(before)


def test_a_damaged_batch_beyond_the_recovery_point_ends_the_log(bench: Workbench) -> None:
    log = flushed_to(bench, 5, 5)
    bench.overwrite(FIRST, 7 * record_bytes(log) + 70, b"!")
    assert offsets(bench.open(ONE)) == list(range(7))


def test_damage_below_the_recovery_point_is_named_with_file_and_byte(bench: Workbench) -> None:
    log = flushed_to(bench, 9, 5)
    position = 8 * record_bytes(log)
    bench.overwrite(FIRST, position + 16, b"\0")
    with pytest.raises(CorruptLog, match="magic 0") as damage:
        bench.open(ONE)
    assert damage.value.path == bench.path(FIRST)
    assert damage.value.position == position
    assert bench.files.size(bench.path(FIRST)) == log.size_bytes


def test_a_log_shorter_than_what_was_flushed_is_damaged(bench: Workbench) -> None:
    log = flushed_to(bench, 9, 0)
    file = bench.files.open(bench.path(FIRST))
    file.truncate(5 * record_bytes(log))
    with pytest.raises(CorruptLog, match="flushed to 9"):
        bench.open(ONE)


def test_only_what_lies_beyond_the_recovery_point_is_scanned(bench: Workbench) -> None:
    config = LogConfig(segment_bytes=20_000)
    log = bench.open(config)
    fill(log, 5_000)
    log.flush()
    bench.checkpoint(log)
    fill(log, 10)
    bench.files.read_bytes = 0
    bench.open(config)
    assert bench.recovery.scanned_bytes == 10 * record_bytes(log)
    assert bench.files.read_bytes < 0.2 * log.size_bytes


def test_a_clean_log_is_not_scanned_at_all(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 2_000)
    expected = content(log)
    log.close()
    bench.files.read_bytes = 0
    reopened = bench.open(is_clean=True)
    assert bench.recovery.scanned_bytes == 0
    assert bench.files.read_bytes < 0.2 * log.size_bytes
    assert content(reopened) == expected
    assert reopened.recovery_point == 2_000


def test_what_follows_a_lost_segment_is_cut(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 40)
    bases = [segment.base_offset for segment in log.segments]
    bench.files.remove(log.segments[1].path(".log"))
    reopened = bench.open()
    assert offsets(reopened) == list(range(bases[1]))
    assert bench.recovery.cut_segments == len(bases) - 2
    fill(reopened, 3)
    assert offsets(bench.open()) == list(range(bases[1] + 3))


def test_what_follows_a_lost_first_segment_is_of_no_use(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 40)
    bench.files.remove(log.segments[0].path(".log"))
    reopened = bench.open()
    assert (reopened.start_offset, reopened.end_offset) == (0, 0)
    assert bench.recovery.cut_segments == len(log.segments) - 1


def test_a_flushed_first_segment_does_not_get_lost_in_silence(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 40)
    log.flush()
    bench.checkpoint(log)
    bench.files.remove(log.segments[0].path(".log"))
    with pytest.raises(CorruptLog, match="should begin here"):
        bench.open()


def test_trimmed_segments_that_came_back_are_removed_again(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 40)
    renamed = log.drop_segments(2)
    start_offset = log.start_offset
    for path in renamed:
        bench.files.rename(path, path.removesuffix(".deleted"))
    reopened = bench.open()
    assert reopened.start_offset == start_offset
    assert reopened.segments[0].base_offset == start_offset
    assert offsets(reopened) == list(range(start_offset, 40))


def test_a_log_that_lost_all_it_was_to_keep_goes_on_at_its_start(bench: Workbench) -> None:
    log = bench.open(ONE)
    fill(log, 10)
    log.advance_start(6)
    file = bench.files.open(bench.path(FIRST))
    file.truncate(0)
    reopened = bench.open(ONE)
    assert (reopened.start_offset, reopened.end_offset) == (6, 6)
    assert append(reopened, batch_of(1)).first_offset == 6
    assert offsets(bench.open(ONE)) == [6]


def test_leader_epochs_are_found_again_when_their_file_is_missing(bench: Workbench) -> None:
    log = bench.open()
    for epoch in (0, 0, 3, 3, 7):
        append(log, batch_of(1, value=b"v" * 300), leader_epoch=epoch)
    log.close()
    for is_clean in (True, False):
        bench.remove_all("leader-epoch-checkpoint")
        reopened = bench.open(is_clean=is_clean)
        assert [tuple(entry) for entry in reopened.epochs.entries] == [(0, 0), (3, 2), (7, 4)]
        assert bench.names("leader-epoch-checkpoint")


def test_epochs_of_what_was_cut_are_forgotten(bench: Workbench) -> None:
    log = bench.open(ONE)
    append(log, batch_of(1), leader_epoch=0)
    size = log.size_bytes
    append(log, batch_of(1), leader_epoch=4)
    bench.overwrite(FIRST, size + 30, b"\xff")
    assert [entry.epoch for entry in bench.open(ONE).epochs.entries] == [0]


def test_aborted_transactions_are_found_again_when_all_indexes_are_missing(
    bench: Workbench,
) -> None:
    log = bench.open()
    for producer_id in range(5):
        append(log, batch_from(producer_id, 0, transactional=True))
        fill(log, 8)
        end_transaction(log, producer_id, MarkerKind.ABORT)
    expected = log.aborted_transactions(0, log.end_offset)
    assert len(expected) == 5
    log.close()
    bench.checkpoint(log)
    bench.recovery_point = log.end_offset
    for is_clean in (True, False):
        bench.remove_all("index")
        reopened = bench.open(is_clean=is_clean)
        assert reopened.aborted_transactions(0, log.end_offset) == expected
    assert bench.open().aborted_transactions(0, log.end_offset) == expected


def test_what_a_crash_left_half_done_is_removed(bench: Workbench) -> None:
    bench.open()
    for name in ("00000000000000000000.log.deleted", "x.cleaned", "leader-epoch-checkpoint.tmp"):
        bench.files.create(bench.path(name)).close()
    bench.open()
    assert not bench.names(".deleted") + bench.names(".cleaned") + bench.names(".tmp")


def test_the_epochs_of_what_was_never_flushed_are_found_while_it_is_checked(
    bench: Workbench,
) -> None:
    log = bench.open(LogConfig())
    fill(log, 50, value=b"v" * 1000)
    append(log, batch_of(1), leader_epoch=6)
    assert not bench.names("leader-epoch-checkpoint")
    bench.files.read_bytes = 0
    again = bench.open(LogConfig())
    assert again.epochs.entries == log.epochs.entries == ((0, 0), (6, 50))
    # It is checked, and the producers' state is made of it.
    assert bench.files.read_bytes < 2.5 * log.size_bytes


def test_opening_what_was_left_cleanly_waits_for_no_disk(bench: Workbench) -> None:
    log = bench.open()
    log.begin_epoch(3)
    fill(log, 50)
    log.close()
    bench.checkpoint(log)
    bench.files.synced.clear()
    reopened = bench.open(is_clean=True)
    reopened.begin_epoch(4)
    assert bench.files.synced == []
    reopened.close()
    assert bench.files.synced == []


def test_what_is_appended_after_a_clean_stop_is_synced_by_the_next_flush(
    disk: SimDisk, sim_bench: Workbench
) -> None:
    log = sim_bench.open(ONE)
    fill(log, 50)
    log.close()
    sim_bench.checkpoint(log)
    sim_bench.files.sync_dir("/")
    reopened = sim_bench.open(ONE, is_clean=True)
    fill(reopened, 50)
    reopened.flush()
    sim_bench.checkpoint(reopened)
    disk.power_loss()
    sim_bench.restart(disk.process())
    assert offsets(sim_bench.open(ONE)) == list(range(100))


def test_a_hole_that_compaction_left_before_a_flushed_segment_is_no_damage(
    bench: Workbench,
) -> None:
    log = bench.open()
    fill(log, 20)
    second = log.segments[1].base_offset
    log.flush()
    file = bench.files.open(log.segments[0].path(".log"))
    file.truncate(3 * log.segments[0].size_bytes // second)
    for recovery_point in (second, log.end_offset):
        bench.recovery_point = recovery_point
        reopened = bench.open()
        assert offsets(reopened) == [0, 1, 2, *range(second, 20)]
