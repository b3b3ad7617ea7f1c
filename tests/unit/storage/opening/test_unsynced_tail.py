"""A sync that failed is not made good by one that succeeds: what it left is written again."""

import pytest

from ottla.errors import LogOffline
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import open_directory
from ottla.storage.opening.unsynced_tail import MARK
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.files import SimFiles
from tests.support.storage.workbench import SMALL, Workbench, content, fill, offsets

NAME = TopicPartition("t", 0)


def kill(disk: SimDisk, bench: Workbench) -> None:
    """The process dies and another comes: the page cache stays."""
    bench.restart(disk.process())


@pytest.mark.parametrize("count", [3, 40])
def test_what_a_failed_sync_left_survives_a_restart_and_then_a_power_loss(
    disk: SimDisk, sim_bench: Workbench, count: int
) -> None:
    log = sim_bench.open()
    fill(log, 5)
    log.flush()
    sim_bench.checkpoint(log)
    sim_bench.files.sync_dir("/")
    fill(log, count)
    expected = content(log)
    for _ in range(9):
        disk.faults.fail_next_sync("*")
    with pytest.raises(LogOffline):
        log.flush()
    disk.faults.clear()

    kill(disk, sim_bench)
    again = sim_bench.open()
    again.flush()
    sim_bench.checkpoint(again)
    assert again.recovery_point == 5 + count
    disk.power_loss()
    sim_bench.restart(disk.process())

    assert content(sim_bench.open()) == expected


def test_what_was_cut_and_not_synced_does_not_come_back_beneath_what_follows(
    disk: SimDisk, sim_bench: Workbench
) -> None:
    log = sim_bench.open()
    fill(log, 8)
    log.flush()
    sim_bench.checkpoint(log)
    sim_bench.files.sync_dir("/")
    disk.faults.fail_next_sync("*.log")
    with pytest.raises(LogOffline):
        log.truncate(5)

    kill(disk, sim_bench)
    again = sim_bench.open()
    assert again.end_offset == 5
    again.flush()
    sim_bench.checkpoint(again)
    fill(again, 1)
    again.flush()
    sim_bench.checkpoint(again)
    disk.power_loss()
    sim_bench.restart(disk.process())

    assert offsets(sim_bench.open()) == list(range(6))


def test_a_log_is_written_again_once(disk: SimDisk, sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 5)
    disk.faults.fail_next_sync("*.log")
    with pytest.raises(LogOffline):
        log.flush()
    assert sim_bench.names(MARK)
    kill(disk, sim_bench)
    sim_bench.open()
    assert not sim_bench.names(MARK)


def test_a_sync_that_fails_while_a_log_is_opened_is_remembered_too(disk: SimDisk) -> None:
    files = disk.process()
    files.make_dir("/d")
    files.sync_dir("/")
    log = opened(files).create(NAME, Uuid(b"\5" * 16))
    fill(log, 5)
    expected = content(log)

    files.crash()
    disk.faults.fail_next_sync("*.log")
    second = disk.process()
    assert NAME in opened(second).unusable
    second.crash()
    third = disk.process()
    directory = opened(third)
    directory.logs[NAME].flush()
    directory.checkpoint()
    disk.power_loss()

    again = opened(disk.process())
    assert again.unusable == {}
    assert content(again.logs[NAME]) == expected


def opened(files: SimFiles) -> LogDirectory:
    return open_directory(
        files,
        "/d",
        cluster_id="cluster",
        node_id=1,
        directory_id=Uuid(b"\6" * 16),
        config_of=lambda _: SMALL,
        clock=SimClock(),
    )
