import errno

import pytest

from ottla.seams.files import read_file
from ottla.storage.log.leader_epoch_file import EpochFile, NoRoomForEpochs
from ottla.storage.log.leader_epochs import FILE_NAME, EpochEntry, LeaderEpochs
from tests.sim.seams.disk import SimDisk
from tests.support.storage.workbench import Workbench


def epoch_file(bench: Workbench, *entries: tuple[int, int], saved: int = -1) -> EpochFile:
    epochs = LeaderEpochs(EpochEntry(*each) for each in entries)
    return EpochFile(bench.files, bench.directory, epochs, saved)


def saved_epochs(bench: Workbench) -> tuple[EpochEntry, ...]:
    return LeaderEpochs.decode(read_file(bench.files, bench.path(FILE_NAME))).entries


def test_a_flush_saves_new_epochs_once(sim_bench: Workbench) -> None:
    file = epoch_file(sim_bench)
    assert file.begin_save_if_new() is None
    file.begin(3, 10)
    save = file.begin_save_if_new()
    assert save is not None
    save.run()
    file.end_save(save)
    assert saved_epochs(sim_bench) == ((3, 10),)
    assert file.begin_save_if_new() is None


def test_an_older_save_does_not_replace_a_newer_one(sim_bench: Workbench) -> None:
    file = epoch_file(sim_bench)
    file.begin(3, 10)
    older = file.begin_save_if_new()
    file.begin(4, 20)
    newer = file.begin_save_if_new()
    assert older is not None
    assert newer is not None
    newer.run()
    older.run()
    file.end_save(older)
    assert saved_epochs(sim_bench) == ((3, 10), (4, 20))
    assert file.begin_save_if_new() is not None, "only the newest save counts"


def test_a_truncation_removes_later_epochs_durably(sim_bench: Workbench) -> None:
    file = epoch_file(sim_bench, (3, 10), (4, 20), saved=4)
    file.cut(15)
    assert file.written == 3
    assert saved_epochs(sim_bench) == ((3, 10),)


def test_an_abandoned_log_writes_no_more(sim_bench: Workbench) -> None:
    file = epoch_file(sim_bench)
    file.begin(3, 10)
    save = file.begin_save_if_new()
    assert save is not None
    file.abandon()
    save.run()
    assert not sim_bench.files.exists(sim_bench.path(FILE_NAME))


def test_a_full_disk_is_told_apart_from_a_broken_one(sim_bench: Workbench, disk: SimDisk) -> None:
    file = epoch_file(sim_bench)
    file.begin(3, 10)
    save = file.begin_save_if_new()
    assert save is not None
    disk.faults.fail_next_write(f"*{FILE_NAME}*", error=errno.ENOSPC)
    with pytest.raises(NoRoomForEpochs):
        save.run()
    save.run()
    assert saved_epochs(sim_bench) == ((3, 10),)
