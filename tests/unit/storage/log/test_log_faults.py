"""A full disk refuses and harms nothing; a broken one takes the log offline, and no other."""

import errno

import pytest

from ottla.errors import LogOffline
from ottla.seams.files import read_file
from ottla.storage.log.config import LogConfig
from ottla.storage.log.leader_epoch_file import NoRoomForEpochs
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.log import Log
from tests.sim.seams.disk import SimDisk
from tests.support.storage.workbench import (
    Workbench,
    append,
    batch_of,
    content,
    fill,
    offsets,
)
from tests.support.time_searches import offset_for_time


def assert_offline(log: Log) -> None:
    assert log.offline is not None
    for use in (
        lambda: fill(log, 1),
        lambda: log.read(0, bytes_max=1),
        lambda: log.flush(),
        lambda: log.roll(),
        lambda: log.truncate(0),
        lambda: log.advance_start(1),
        lambda: log.begin_epoch(9),
        lambda: offset_for_time(log, 0),
        lambda: log.aborted_transactions(0, 1),
    ):
        with pytest.raises(LogOffline):
            use()


# --- making durable ---------------------------------------------------------------------------


def test_a_flush_is_due_after_enough_messages(bench: Workbench) -> None:
    log = bench.open(LogConfig(flush_messages=5))
    append(log, batch_of(1, 2, 3))
    assert not log.flush_is_due()
    append(log, batch_of(1, 2))
    assert log.flush_is_due()
    log.flush()
    assert not log.flush_is_due()
    assert log.recovery_point == 5


def test_a_flush_is_due_after_enough_time_if_there_is_anything_to_flush(bench: Workbench) -> None:
    log = bench.open(LogConfig(flush_ms=1000))
    bench.clock.advance(ms=5000)
    assert not log.flush_is_due()
    log.flush()
    fill(log, 1)
    bench.clock.advance(ms=999)
    assert not log.flush_is_due()
    bench.clock.advance(ms=1)
    assert log.flush_is_due()
    log.flush()
    fill(log, 1)
    bench.clock.advance(ms=999)
    assert not log.flush_is_due()


@pytest.mark.parametrize("step_ms", [-86_400_000, 365 * 86_400_000])
def test_a_flush_is_due_when_its_time_has_passed_however_the_wall_clock_was_set(
    bench: Workbench, step_ms: int
) -> None:
    log = bench.open(LogConfig(flush_ms=1000))
    fill(log, 1)
    bench.clock.jump_wall(step_ms)
    assert not log.flush_is_due()
    bench.clock.advance(ms=1000)
    assert log.flush_is_due()


def test_a_flush_syncs_the_log_before_its_indexes_and_only_what_changed(bench: Workbench) -> None:
    log = bench.open(LogConfig(index_interval_bytes=1))
    fill(log, 3)
    bench.files.synced.clear()
    log.flush()
    names = [path.removeprefix(f"{bench.directory}/") for path in bench.files.synced]
    first = "00000000000000000000"
    assert names == [
        "leader-epoch-checkpoint.tmp",
        bench.directory,
        *(f"{first}.log", f"{first}.index", f"{first}.timeindex"),
        bench.directory,
    ]
    bench.files.synced.clear()
    log.flush()
    assert bench.files.synced == []


def saved_epochs(bench: Workbench) -> list[tuple[int, int]]:
    path = bench.path("leader-epoch-checkpoint")
    if not bench.files.exists(path):
        return []
    return [tuple(entry) for entry in LeaderEpochs.decode(read_file(bench.files, path)).entries]


def test_the_beginning_of_a_flush_waits_for_no_disk_also_if_a_leader_epoch_is_new(
    bench: Workbench,
) -> None:
    log = bench.open()
    append(log, batch_of(1), leader_epoch=3)
    bench.files.synced.clear()
    flush = log.begin_flush()
    assert bench.files.synced == []
    assert saved_epochs(bench) == []
    flush.run()
    assert saved_epochs(bench) == [(3, 0)]
    log.end_flush(flush)
    bench.files.synced.clear()
    append(log, batch_of(1), leader_epoch=3)
    log.flush()
    assert not any("epoch" in path for path in bench.files.synced), "it is saved once"


def test_an_epoch_that_begins_during_a_flush_is_saved_by_the_next(bench: Workbench) -> None:
    log = bench.open()
    append(log, batch_of(1), leader_epoch=3)
    flush = log.begin_flush()
    append(log, batch_of(1), leader_epoch=5)
    flush.run()
    log.end_flush(flush)
    assert (saved_epochs(bench), log.recovery_point) == ([(3, 0)], 1)
    log.flush()
    assert (saved_epochs(bench), log.recovery_point) == ([(3, 0), (5, 1)], 2)


def test_a_flush_that_runs_late_does_not_bring_back_epochs_that_were_cut(bench: Workbench) -> None:
    log = bench.open()
    append(log, batch_of(1), leader_epoch=3)
    append(log, batch_of(1), leader_epoch=5)
    late = log.begin_flush()
    log.truncate(1)
    assert saved_epochs(bench) == [(3, 0)]
    late.run()
    log.end_flush(late)
    assert saved_epochs(bench) == [(3, 0)]
    append(log, batch_of(1), leader_epoch=7)
    log.flush()
    assert saved_epochs(bench) == [(3, 0), (7, 1)]


def test_a_flush_that_runs_after_its_log_was_deleted_writes_nothing_where_it_was(
    bench: Workbench,
) -> None:
    log = bench.open()
    append(log, batch_of(1), leader_epoch=3)
    late = log.begin_flush()
    log.abandon()
    late.run()
    assert saved_epochs(bench) == []


def test_a_full_disk_that_takes_no_epoch_refuses_the_flush_and_harms_nothing(
    disk: SimDisk, sim_bench: Workbench
) -> None:
    log = sim_bench.open()
    append(log, batch_of(1), leader_epoch=3)
    flush = log.begin_flush()
    disk.faults.fail_next_write("*epoch*")
    with pytest.raises(OSError, match=str(errno.ENOSPC)) as refused:
        flush.run()
    assert isinstance(refused.value, NoRoomForEpochs)
    disk.faults.fail_next_write("*epoch*")
    with pytest.raises(NoRoomForEpochs):
        log.flush()
    assert log.offline is None
    assert log.recovery_point == 0
    log.flush()
    assert (saved_epochs(sim_bench), log.recovery_point) == ([(3, 0)], 1)


def test_a_flush_does_not_vouch_for_what_was_cut_and_written_anew_meanwhile(
    bench: Workbench,
) -> None:
    log = bench.open()
    fill(log, 8)
    flush = log.begin_flush()
    log.truncate(2)
    fill(log, 8)
    flush.run()
    log.end_flush(flush)
    assert log.recovery_point == 0
    assert log.messages_unflushed == 10


def test_two_flushes_may_overlap(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 4)
    slow = log.begin_flush()
    fill(log, 4)
    log.flush()
    slow.run()
    log.end_flush(slow)
    assert log.recovery_point == 8
    assert log.messages_unflushed == 0


def test_a_failed_sync_takes_the_log_offline_and_is_never_tried_again(
    disk: SimDisk, sim_bench: Workbench
) -> None:
    log = sim_bench.open()
    fill(log, 3)
    disk.faults.fail_next_sync("*.log")
    with pytest.raises(LogOffline):
        log.flush()
    sim_bench.files.synced.clear()
    assert_offline(log)
    log.close()
    assert sim_bench.files.synced == []
    assert log.recovery_point == 0


# --- a full disk ------------------------------------------------------------------------------


def test_a_batch_that_does_not_fit_is_refused_and_cut_off(
    disk: SimDisk, sim_bench: Workbench
) -> None:
    log = sim_bench.open()
    fill(log, 3)
    before = content(log)
    disk.faults.shorten_next_write("*.log", 30)
    disk.faults.fail_next_write("*.log", after=1)
    with pytest.raises(OSError, match="No space") as refused:
        fill(log, 1)
    assert refused.value.errno == errno.ENOSPC
    assert content(log) == before
    assert disk.files()["/t-0/00000000000000000000.log"] == before
    fill(log, 1)
    assert offsets(log) == [0, 1, 2, 3]


def test_a_short_write_is_completed(disk: SimDisk, sim_bench: Workbench) -> None:
    log = sim_bench.open()
    disk.faults.shorten_next_write("*.log", 10)
    fill(log, 1)
    assert offsets(log) == [0]
    assert disk.files()["/t-0/00000000000000000000.log"] == content(log)


def test_a_refused_batch_does_not_come_back_with_the_power(
    disk: SimDisk, sim_bench: Workbench
) -> None:
    log = sim_bench.open()
    fill(log, 3)
    log.flush()
    sim_bench.checkpoint(log)
    disk.faults.shorten_next_write("*.log", 30)
    disk.faults.fail_next_write("*.log", after=1)
    with pytest.raises(OSError, match="No space"):
        fill(log, 1)
    disk.power_loss()
    stored = disk.files()["/t-0/00000000000000000000.log"]
    assert stored == log_of(disk, sim_bench)


def log_of(disk: SimDisk, bench: Workbench) -> bytes:
    """What a new process finds after the power is back."""
    restarted = Workbench.__new__(Workbench)
    restarted.__dict__.update(bench.__dict__, files=disk.process())
    return content(restarted.open())


@pytest.mark.parametrize("pattern", ["*.snapshot", "*.index", "*.log"])
def test_a_disk_without_room_for_a_new_segment_changes_nothing(
    disk: SimDisk, sim_bench: Workbench, pattern: str
) -> None:
    log = sim_bench.open()
    fill(log, 8)
    before = content(log)
    disk.faults.fail_next_write(pattern)
    with pytest.raises(OSError, match="No space"):
        append(log, batch_of(1, value=b"v" * 900), leader_epoch=5)
    assert log.offline is None
    assert content(log) == before
    append(log, batch_of(1, value=b"v" * 900), leader_epoch=5)
    assert log.epochs.latest == (5, 8)
    assert offsets(sim_bench.open()) == list(range(9))


def test_an_epoch_is_saved_with_the_flush_of_its_first_batch_and_not_before(
    disk: SimDisk, sim_bench: Workbench
) -> None:
    log = sim_bench.open()
    fill(log, 2)
    log.flush()
    saved = disk.files()["/t-0/leader-epoch-checkpoint"]
    sim_bench.files.synced.clear()
    log.begin_epoch(4)
    log.flush()
    assert log.epochs.latest == (4, 2)
    assert disk.files()["/t-0/leader-epoch-checkpoint"] == saved
    assert sim_bench.files.synced == []
    append(log, batch_of(1), leader_epoch=4)
    assert sim_bench.files.synced == []
    log.flush()
    assert b"4 2" in disk.files()["/t-0/leader-epoch-checkpoint"]


def test_epochs_that_find_no_room_keep_the_flush_from_vouching_for_their_batches(
    disk: SimDisk, sim_bench: Workbench
) -> None:
    log = sim_bench.open()
    fill(log, 2)
    append(log, batch_of(1), leader_epoch=4)
    disk.faults.fail_next_write("*leader-epoch-checkpoint.tmp")
    with pytest.raises(OSError, match="No space"):
        log.flush()
    assert (log.offline, log.recovery_point) == (None, 0)
    log.flush()
    assert log.recovery_point == 3
    assert b"4 2" in disk.files()["/t-0/leader-epoch-checkpoint"]


def test_a_start_that_cannot_be_written_down_does_not_move(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 30)

    def no_room() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log._checkpoint = no_room
    for shrink in (lambda: log.advance_start(5), lambda: log.drop_segments(1)):
        with pytest.raises(OSError, match="No space"):
            shrink()
    with pytest.raises(OSError, match="No space"):
        log.truncate(5)
    assert (log.start_offset, log.end_offset, log.offline) == (0, 30, None)
    assert len(offsets(log)) == 30


# --- a broken disk ----------------------------------------------------------------------------


def test_a_fault_while_appending_takes_the_log_offline(disk: SimDisk, sim_bench: Workbench) -> None:
    log = sim_bench.open()
    disk.faults.fail_next_write("*.log", error=errno.EIO)
    with pytest.raises(LogOffline):
        fill(log, 1)
    disk.faults.clear()
    assert_offline(log)
    assert offsets(sim_bench.open()) == []


@pytest.mark.parametrize(
    ("operation", "pattern"),
    [
        ("sync", "*.log"),
        ("write", "*checkpoint.tmp"),
        ("sync", "*checkpoint.tmp"),
        ("rename", "*"),
        ("sync_dir", "*"),
    ],
)
def test_a_fault_while_flushing_takes_the_log_offline(
    disk: SimDisk, sim_bench: Workbench, operation: str, pattern: str
) -> None:
    log = sim_bench.open()
    fill(log, 1)
    disk.faults.fail_next(operation, pattern, error=errno.EIO)  # type: ignore[arg-type]
    with pytest.raises(LogOffline):
        log.flush()
    assert log.recovery_point == 0
    assert_offline(log)


def test_an_append_waits_for_no_disk_even_if_it_is_an_epochs_first(bench: Workbench) -> None:
    log = bench.open()
    bench.files.synced.clear()
    fill(log, 1)
    append(log, batch_of(1), leader_epoch=4)
    assert bench.files.synced == []


@pytest.mark.parametrize("seed", range(20))
def test_a_flush_keeps_the_epochs_of_what_it_flushed(seed: int) -> None:
    disk = SimDisk(seed)
    bench = Workbench(disk.process(), "/t-0")
    bench.files.sync_dir("/")
    log = bench.open()
    fill(log, 2)
    append(log, batch_of(1), leader_epoch=4)
    log.flush()
    bench.checkpoint(log)
    append(log, batch_of(1), leader_epoch=5)
    disk.power_loss()
    bench.restart(disk.process())
    found = bench.open().epochs.entries
    assert found in (log.epochs.entries, log.epochs.entries[:2])


def test_a_fault_while_rolling_takes_the_log_offline(disk: SimDisk, sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 5)
    disk.faults.fail_next("create", "*00005.log", error=errno.EIO)
    with pytest.raises(LogOffline):
        log.roll()
    assert_offline(log)
    assert offsets(sim_bench.open()) == list(range(5))


def test_a_fault_while_reading_takes_the_log_offline(disk: SimDisk, sim_bench: Workbench) -> None:
    fill(sim_bench.open(), 5)
    log = sim_bench.open()
    disk.faults.fail_next_read("*.log")
    with pytest.raises(LogOffline):
        log.read(2, bytes_max=1)
    assert_offline(log)


def test_a_fault_takes_only_its_own_log_offline(disk: SimDisk) -> None:
    files = disk.process()
    broken, sound = Workbench(files, "/t-0").open(), Workbench(files, "/t-1").open()
    disk.faults.fail_next("write", "/t-0/*.log", error=errno.EIO)
    with pytest.raises(LogOffline):
        fill(broken, 1)
    fill(sound, 3)
    assert offsets(sound) == [0, 1, 2]
    assert sound.offline is None


def test_a_batch_that_cannot_even_be_cut_off_takes_the_log_offline(
    disk: SimDisk, sim_bench: Workbench
) -> None:
    log = sim_bench.open()
    fill(log, 1)
    disk.faults.fail_next_write("*.log")
    disk.faults.fail_next("truncate", "*.log")
    with pytest.raises(LogOffline):
        fill(log, 1)
    assert_offline(log)
