"""A log whose leader has nothing left of it begins again, at a later offset."""

import pytest

from ottla.errors import OffsetOutOfRange
from ottla.storage.log.config import LogConfig
from tests.sim.seams.disk import SimDisk
from tests.support.storage.workbench import (
    Workbench,
    append,
    batch_from,
    batch_of,
    content,
    fill,
    offsets,
)

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=80)


def test_a_restarted_log_is_empty_and_goes_on_at_its_new_start(bench: Workbench) -> None:
    log = bench.open(SMALL)
    append(log, batch_from(7, 0))
    fill(log, 20)
    log.flush()
    log.restart_at(100)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (100, 100, 0)
    assert (len(log.producers), log.epochs.entries, log.last_written_epoch) == (0, (), -1)
    assert (log.recovery_point, log.messages_unflushed) == (100, 0)
    assert log.read(100, bytes_max=1) is None
    with pytest.raises(OffsetOutOfRange):
        log.read(5, bytes_max=1)
    log.append_replicated(batch_of(1, base_offset=100, leader_epoch=9))
    assert offsets(log) == [100]
    assert [tuple(entry) for entry in log.epochs.entries] == [(9, 100)]
    log.close()
    reopened = bench.open(SMALL)
    assert (reopened.start_offset, offsets(reopened)) == (100, [100])
    assert bench.recovery.cut_because is None


def test_a_log_does_not_restart_within_itself(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 5)
    for offset in (0, 4, 5):
        with pytest.raises(ValueError, match="not above"):
            log.restart_at(offset)
    assert offsets(log) == list(range(5))


def test_a_flush_or_plan_from_before_a_restart_is_void(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 9)
    flush, truncations = log.begin_flush(), log.truncations
    log.plan_start(4)
    log.restart_at(50)
    flush.run()
    log.end_flush(flush)
    log.planned_start_is_durable(4, truncations)
    assert (log.start_offset, log.recovery_point, log.planned_start) == (50, 50, None)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("loses_power", [True, False])
@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_restart_that_is_killed_is_finished_or_was_not_begun(
    loses_power: bool, is_flushed: bool
) -> None:
    """At every operation on the disk: the old log, or an empty one at the new start."""
    outcomes = set()
    for spared in range(200):
        disk = SimDisk(spared)
        bench = Workbench(disk.process(), "/t-0")
        bench.files.sync_dir("/")
        log = bench.open(SMALL)
        append(log, batch_from(7, 0))
        fill(log, 11)
        if is_flushed:
            log.flush()
            bench.checkpoint(log)
        before = content(log)
        harmless, left = disk.faults.error_for, spared

        def error_for(operation: object, path: str) -> int:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return 0

        disk.faults.error_for = error_for  # type: ignore[method-assign]
        is_done = True
        try:
            log.restart_at(100)
        except Killed:
            is_done = False
        disk.faults.error_for = harmless  # type: ignore[method-assign]
        if loses_power:
            disk.power_loss()
        bench.restart(disk.process())
        reopened = bench.open(SMALL)
        was_begun = bench.start_offset == 100
        if was_begun:
            assert (reopened.start_offset, reopened.end_offset) == (100, 100)
            assert (reopened.size_bytes, len(reopened.producers)) == (0, 0)
            assert reopened.epochs.entries == ()
            assert bench.recovery.is_torn_write or bench.recovery.cut_because is None or loses_power
        else:
            assert not is_done
            assert content(reopened) == before or (loses_power and not is_flushed)
        append(reopened, batch_of(1), leader_epoch=5)
        outcomes.add((was_begun, is_done))
        if is_done:
            break
    assert outcomes >= {(True, False), (True, True)}
