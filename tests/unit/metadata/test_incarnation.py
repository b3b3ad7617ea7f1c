"""Which brokers inherit from their previous incarnation."""

import pytest

from ottla.metadata.incarnation import (
    SavedIncarnation,
    inherited_epochs,
    is_intact,
    read_incarnation,
    with_unserved,
    write_incarnation,
)
from ottla.metadata.json_codec import JsonMismatch
from ottla.seams.files import Files, replace_file
from tests.sim.seams.disk import SimDisk

DIRECTORY = "/data"
PATH = f"{DIRECTORY}/incarnation.json"
KILLED = SavedIncarnation(broker_epoch=7, boot_id="monday", clean=False)
STOPPED = SavedIncarnation(broker_epoch=7, boot_id="monday", clean=True)


def new_disk(seed: int = 0) -> tuple[SimDisk, Files]:
    disk = SimDisk(seed)
    files = disk.process()
    files.make_dir(DIRECTORY)
    files.sync_dir("/")
    return disk, files


@pytest.mark.parametrize(
    ("previous", "boot_id", "epochs"),
    [
        (KILLED, "monday", (7,)),
        (KILLED, "tuesday", ()),
        (STOPPED, "monday", (7,)),
        (STOPPED, "tuesday", (7,)),
        (with_unserved(with_unserved(STOPPED, 8), 9), "tuesday", (7, 8, 9)),
        (with_unserved(KILLED, 8), "tuesday", ()),
        (None, "monday", ()),
    ],
    ids=[
        *("killed", "power lost", "stopped", "stopped, then rebooted"),
        *("stopped, then died at two starts", "power lost before a start", "new"),
    ],
)
def test_an_intact_broker_inherits(
    previous: SavedIncarnation | None, boot_id: str, epochs: tuple[int, ...]
) -> None:
    assert inherited_epochs(previous, boot_id) == epochs
    assert previous is None or is_intact(previous, boot_id) == bool(epochs)


def test_unserved_epochs_are_bounded() -> None:
    saved = STOPPED
    for epoch in range(8, 3_000):
        saved = with_unserved(saved, epoch)
    assert saved.unserved == tuple(range(2_000, 3_000))
    _, files = new_disk()
    write_incarnation(files, DIRECTORY, saved)
    assert read_incarnation(files, DIRECTORY) == saved


def test_an_incarnation_survives_a_round_trip() -> None:
    _, files = new_disk()
    assert read_incarnation(files, DIRECTORY) is None
    for saved in (KILLED, STOPPED, with_unserved(KILLED, 9)):
        write_incarnation(files, DIRECTORY, saved)
        assert read_incarnation(files, DIRECTORY) == saved


def test_it_is_durable_and_readable() -> None:
    disk, files = new_disk(3)
    write_incarnation(files, DIRECTORY, KILLED)
    disk.power_loss()
    assert disk.files()[PATH] == b'{"boot_id":"monday","broker_epoch":7,"clean":false}'
    assert read_incarnation(disk.process(), DIRECTORY) == KILLED


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_while_it_is_replaced_leaves_the_old_or_the_new(seed: int) -> None:
    disk, files = new_disk(seed)
    write_incarnation(files, DIRECTORY, KILLED)
    disk.faults.fail_next("rename" if seed % 2 else "sync_dir")
    with pytest.raises(OSError, match="error"):
        write_incarnation(files, DIRECTORY, STOPPED)
    disk.power_loss()
    assert read_incarnation(disk.process(), DIRECTORY) in (KILLED, STOPPED)


def damaged(files: Files, content: bytes) -> SavedIncarnation | None:
    replace_file(files, PATH, content)
    return read_incarnation(files, DIRECTORY)


def test_a_damaged_file_is_no_incarnation() -> None:
    _, files = new_disk()
    assert damaged(files, b"") is None
    assert damaged(files, b"\x00" * 40) is None
    assert damaged(files, b'{"broker_epoch":7,"boot_id":"monday"}') is None
    assert damaged(files, b'{"broker_epoch":-7,"boot_id":"monday","clean":true}') is None
    assert damaged(files, b'{"broker_epoch":7,"boot_id":"monday","clean":1}') is None
    assert damaged(files, b'{"broker_epoch":7,"boot_id":"monday","clean":true}') == STOPPED


def test_a_broker_without_a_boot_id_is_our_own_fault() -> None:
    _, files = new_disk()
    with pytest.raises(JsonMismatch, match="boot_id"):
        write_incarnation(files, DIRECTORY, SavedIncarnation(1, "", clean=False))
