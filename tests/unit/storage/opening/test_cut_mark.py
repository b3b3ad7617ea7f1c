"""A recovery that cut records is reported until somebody has recorded it."""

from contextlib import suppress

import pytest

from ottla.storage.opening.cut_mark import CUT_BEFORE, MARK, remove_cut_mark
from tests.sim.disk_switches import DeathSwitch
from tests.sim.seams.disk import SimDisk
from tests.support.storage.workbench import Workbench, batch_of, fill

FIRST = "00000000000000000000.log"


def test_a_cut_is_reported_again_by_the_next_recovery_until_it_is_recorded(
    bench: Workbench,
) -> None:
    fill(bench.open(), 5)
    bench.overwrite(FIRST, 70, b"!")
    bench.open()
    assert bench.recovery.cut_because is not None
    assert FIRST in bench.recovery.cut_because

    bench.open()
    assert bench.recovery.cut_because == CUT_BEFORE
    assert not bench.recovery.is_torn_write

    remove_cut_mark(bench.files, bench.directory)
    bench.open()
    assert bench.recovery.cut_because is None


def test_a_torn_write_is_not_marked(bench: Workbench) -> None:
    log = bench.open()
    fill(log, 5)
    bench.overwrite(FIRST, log.size_bytes, bytes(batch_of(1))[:-3])
    bench.open()
    assert bench.recovery.is_torn_write
    assert bench.names(MARK) == []
    bench.open()
    assert bench.recovery.cut_because is None


@pytest.mark.parametrize("operations", range(20))
def test_a_process_that_is_killed_within_the_cut_leaves_a_mark_or_the_damage(
    disk: SimDisk, sim_bench: Workbench, operations: int
) -> None:
    fill(sim_bench.open(), 5)
    sim_bench.overwrite(FIRST, 70, b"!")
    process = disk.process()
    sim_bench.restart(process)
    switch = DeathSwitch(disk.faults, process.crash)
    switch.arm(operations)
    with suppress(OSError):
        sim_bench.open()
    switch.disarm()
    process.crash()
    sim_bench.restart(disk.process())
    sim_bench.open()
    assert sim_bench.recovery.cut_because is not None
