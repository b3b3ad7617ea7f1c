"""A log moves to another log directory while it is in use. A crash at any step loses nothing."""

from collections.abc import Callable

import pytest

from ottla.errors import LogOffline
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.compaction.segment_swap import OutputIsUseless
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import open_directory
from ottla.storage.directory.future_log import FutureLog, settle_swaps
from ottla.storage.log.log import Log
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.files import SimFiles
from tests.support.storage.workbench import (
    SMALL,
    append,
    batch_from,
    batch_of,
    content,
    fill,
    offsets,
)

NAME = TopicPartition("t", 0)
TOPIC_ID = Uuid(b"\5" * 16)
START = 3


class Killed(BaseException):
    """The process ends here."""


def open_both(files: SimFiles) -> tuple[LogDirectory, LogDirectory]:
    first, second = (
        open_directory(
            files,
            path,
            cluster_id="cluster",
            node_id=1,
            directory_id=Uuid(path.encode() * 8),
            config_of=lambda _: SMALL,
            clock=SimClock(),
        )
        for path in ("/a", "/b")
    )
    settle_swaps(files, [first, second])
    return first, second


def begun(disk: SimDisk, files: SimFiles | None = None) -> tuple[LogDirectory, LogDirectory, Log]:
    """A log in the first directory that starts within a batch, some of it flushed."""
    files = files or disk.process()
    for path in ("/a", "/b"):
        files.make_dir(path)
    files.sync_dir("/")
    first, second = open_both(files)
    log = first.create(NAME, TOPIC_ID)
    append(log, batch_of(1, 2, 3, 4, 5))
    append(log, batch_from(7, 0), leader_epoch=2)
    for _ in range(12):
        append(log, batch_of(1, value=b"v" * 90), leader_epoch=2)
    log.advance_start(START)
    log.flush()
    first.checkpoint()
    append(log, batch_from(7, 1), leader_epoch=4)
    return first, second, log


def future_of(origin: LogDirectory, target: LogDirectory, log: Log) -> FutureLog:
    return FutureLog(NAME, TOPIC_ID, log, origin, target, "0" * 32)


def copy_all(future: FutureLog, bytes_max: int = 1) -> None:
    while (records := future.next_slice(bytes_max)) is not None:
        future.take(records.read())


def make_durable(future: FutureLog) -> None:
    future.prepare()
    future.log.flush()
    future.target.checkpoint()
    future.saved_start = future.log.start_offset


def finish(future: FutureLog, origin: LogDirectory) -> None:
    future.confirm()
    origin.purge(future.remove_original())
    origin.checkpoint()
    future.target.checkpoint()
    future.finish()


def moved(origin: LogDirectory, target: LogDirectory, log: Log) -> Log:
    future = future_of(origin, target, log)
    copy_all(future)
    make_durable(future)
    assert future.is_ready
    swapped = future.swap()
    finish(future, origin)
    return swapped


def test_a_moved_log_is_the_same_log_elsewhere() -> None:
    disk = SimDisk(0)
    first, second, log = begun(disk)
    expected = content(log)
    epochs, producers = log.epochs.entries, log.producers
    end_offset = log.end_offset
    swapped = moved(first, second, log)
    assert (first.logs, second.logs) == ({}, {NAME: swapped})
    assert swapped.directory == f"/b/{NAME}"
    assert content(swapped) == expected
    assert (swapped.start_offset, swapped.end_offset) == (START, end_offset)
    assert (swapped.epochs.entries, swapped.producers) == (epochs, producers)
    assert not [path for path in disk.files() if path.startswith(f"/a/{NAME}")]
    with pytest.raises(LogOffline):
        fill(log, 1)
    # It is as usable as any log: it rolls, is flushed, truncated, trimmed and closed.
    for _ in range(30):
        append(swapped, batch_of(1), leader_epoch=6)
    swapped.flush()
    swapped.truncate(end_offset + 20)
    swapped.advance_start(end_offset + 2)
    after = content(swapped)
    assert first.close(broker_epoch=1) == second.close(broker_epoch=1) == {}
    first, second = open_both(disk.process())
    assert content(second.logs[NAME]) == after
    assert (first.logs, second.unusable) == ({}, {})


def test_producers_whose_records_were_deleted_are_known_after_the_move_and_a_crash() -> None:
    disk = SimDisk(0)
    files = disk.process()
    for path in ("/a", "/b"):
        files.make_dir(path)
    first, second = open_both(files)
    log = first.create(NAME, TOPIC_ID)
    append(log, batch_from(9, 0))
    fill(log, 20)
    log.drop_segments(len(log.segments) - 1)
    swapped = moved(first, second, log)
    assert swapped.producers.get(9) is not None
    files.crash()
    assert open_both(disk.process())[1].logs[NAME].producers.get(9) is not None


def test_the_copy_is_not_ready_before_it_has_and_saved_all() -> None:
    first, second, log = begun(SimDisk(0))
    future = future_of(first, second, log)
    copy_all(future)
    assert not future.is_ready
    make_durable(future)
    assert future.is_ready
    changes: list[Callable[[], object]] = [
        lambda: append(log, batch_of(1), leader_epoch=4),
        lambda: log.advance_start(START + 1),
        lambda: log.begin_epoch(9),
        lambda: log.plan_start(START + 2),
    ]
    for number, change in enumerate(changes):
        change()
        assert not future.is_ready, number
        if number == 3:
            first.checkpoint()
        copy_all(future)
        future.prepare()
        future.log.flush()
        assert future.is_ready == (number not in (1, 3)), "the start must be saved"
        make_durable(future)
        assert future.is_ready, number
    assert future.log.start_offset == START + 2
    append(log, batch_of(1), leader_epoch=9)
    copy_all(future)
    assert future.is_ready, "as durable as the original"
    log.flush()
    assert not future.is_ready, "the original is more durable"


def test_a_truncated_original_voids_the_copy() -> None:
    first, second, log = begun(SimDisk(0))
    future = future_of(first, second, log)
    copy_all(future)
    log.truncate(log.end_offset - 1)
    append(log, batch_of(1), leader_epoch=5)
    assert future.is_void
    second.purge(future.give_up())
    assert second.copies == {}
    assert content(moved(first, second, log)) == content(second.logs[NAME])


def test_a_copy_that_retention_overtook_goes_on_at_the_new_start() -> None:
    first, second, log = begun(SimDisk(0))
    future = future_of(first, second, log)
    records = future.next_slice(1)
    assert records is not None
    future.take(records.read())
    log.drop_segments(len(log.segments) - 1)
    copy_all(future)
    make_durable(future)
    assert future.is_ready
    assert offsets(future.swap()) == list(range(log.start_offset, log.end_offset))


def test_a_log_is_not_compacted_while_it_moves() -> None:
    first, second, log = begun(SimDisk(0))
    future = future_of(first, second, log)
    with pytest.raises(OutputIsUseless, match="moved during a compaction"):
        log.replace_segments(log.segments[:1], log.truncations)
    future.give_up()
    assert not log.is_moving


def test_a_new_log_of_the_name_is_not_put_where_the_original_still_is() -> None:
    first, second, log = begun(SimDisk(0))
    future = future_of(first, second, log)
    copy_all(future)
    make_durable(future)
    future.swap()
    assert NAME in first.leaving
    finish(future, first)
    assert first.leaving == set()


def test_a_failed_target_takes_the_copy_offline_and_not_the_log() -> None:
    first, second, log = begun(SimDisk(0))
    future = future_of(first, second, log)
    second.fail(OSError(5, "gone"))
    assert future.is_void
    append(log, batch_of(1), leader_epoch=4)
    assert log.offline is None


def run_move(disk: SimDisk, spared: int, *, flushes: bool) -> tuple[Log, bool, dict[str, int]]:
    """Moves a log and writes meanwhile, until the process dies at a disk operation.

    Returns the log in use, whether the process survived, and the offsets that must survive.
    """
    files = disk.process()
    first, second, log = begun(disk, files)
    promised = {"flushed": log.recovery_point, "start": START}
    in_use = log
    harmless, left = disk.faults.error_for, spared

    def error_for(operation: object, path: str) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return 0

    disk.faults.error_for = error_for  # type: ignore[method-assign]
    survived = True
    try:
        future = future_of(first, second, log)
        copy_all(future, 1 << 20)
        append(log, batch_of(1), leader_epoch=4)
        copy_all(future)
        make_durable(future)
        append(log, batch_of(1), leader_epoch=4)
        copy_all(future)
        in_use = future.swap()
        append(in_use, batch_of(1), leader_epoch=4)
        if flushes:
            in_use.flush()
            promised["flushed"] = in_use.recovery_point
        append(in_use, batch_of(1), leader_epoch=4)
        finish(future, first)
        second.checkpoint()
    except Killed:
        survived = False
    disk.faults.error_for = harmless  # type: ignore[method-assign]
    files.crash()
    return in_use, survived, promised


@pytest.mark.parametrize("loses_power", [False, True])
@pytest.mark.parametrize("kill_again", [False, True])
@pytest.mark.parametrize("flushes", [False, True])
def test_a_move_that_is_killed_at_any_step_loses_nothing(
    loses_power: bool, kill_again: bool, flushes: bool
) -> None:
    homes = set()
    for spared in range(1000):
        disk = SimDisk(spared)
        in_use, survived, promised = run_move(disk, spared, flushes=flushes)
        if loses_power:
            disk.power_loss()
        if kill_again:
            die_while_opening(disk, spared % 40)
        first, second = open_both(disk.process())
        found = [each.logs[NAME] for each in (first, second) if NAME in each.logs]
        assert len(found) == 1, spared
        (log,) = found
        assert first.unusable == second.unusable == {}, spared
        assert log.start_offset == promised["start"], spared
        # The end offset in memory may be one append behind the disk.
        end_offset = promised["flushed"] if loses_power else in_use.end_offset
        assert log.end_offset >= end_offset, spared
        assert offsets(log) == [0, *range(5, log.end_offset)], spared
        assert log.epochs.latest_epoch == (2 if log.end_offset <= 18 else 4), spared
        homes.add(log.directory)
        fill_from(log)
        if survived:
            break
    else:
        pytest.fail("the move never ended")
    assert homes == {f"/a/{NAME}", f"/b/{NAME}"}
    assert not [path for path in disk.files() if path.endswith("moved-here")]


def die_while_opening(disk: SimDisk, spared: int) -> None:
    harmless, left = disk.faults.error_for, spared

    def error_for(operation: object, path: str) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return 0

    files = disk.process()
    disk.faults.error_for = error_for  # type: ignore[method-assign]
    try:
        open_both(files)
    except Killed:
        pass
    finally:
        disk.faults.error_for = harmless  # type: ignore[method-assign]
        files.crash()


def fill_from(log: Log) -> None:
    before = offsets(log)
    append(log, batch_of(1), leader_epoch=8)
    assert offsets(log) == [*before, log.end_offset - 1]
