"""What the first log directory remembers of the others."""

import errno

import pytest

from ottla.errors import CorruptLog, StorageError
from ottla.protocol.primitives import Uuid
from ottla.seams.files import Files, replace_file, sync_file
from ottla.storage.directory.placements import FILE_NAME, PartitionKey, Placements
from tests.sim.seams.disk import SimDisk

HOME = "/a"
PATH = f"{HOME}/{FILE_NAME}"
ONE: PartitionKey = (Uuid(b"1" * 16), 0)
TWO: PartitionKey = (Uuid(b"2" * 16), 7)
B = {"id-b": "/b"}


@pytest.fixture
def files(disk: SimDisk) -> Files:
    process = disk.process()
    process.make_dir(HOME)
    process.sync_dir("/")
    return process


def begun(files: Files) -> Placements:
    placements = Placements(files, HOME)
    placements.rewrite(B, {}, failed=(), guessed=(), is_known=lambda _: True)
    return placements


def test_what_was_noted_is_read_back(files: Files) -> None:
    placements = begun(files)
    placements.add(ONE, "id-b")
    placements.add(TWO, "id-b")
    again = Placements(files, HOME)
    assert again.directories == B
    assert again.partitions == {ONE: "id-b", TWO: "id-b"}
    assert again.lost(B) == set()
    assert again.lost({}) == {ONE, TWO}


def test_what_was_noted_survives_a_power_loss(disk: SimDisk, files: Files) -> None:
    begun(files).add(ONE, "id-b")
    sync_file(files, PATH)
    disk.power_loss()
    assert Placements(disk.process(), HOME).partitions == {ONE: "id-b"}


def test_a_full_disk_refuses_a_note_and_takes_the_next(disk: SimDisk, files: Files) -> None:
    placements = begun(files)
    disk.faults.shorten_next_write(PATH, 20)
    disk.faults.fail_next_write(PATH)
    with pytest.raises(OSError, match="No space"):
        placements.add(ONE, "id-b")
    assert Placements(files, HOME).partitions == {}
    placements.add(TWO, "id-b")
    assert Placements(files, HOME).partitions == {TWO: "id-b"}


def test_a_disk_that_fails_refuses_a_note(disk: SimDisk, files: Files) -> None:
    placements = begun(files)
    disk.faults.fail_next_write(PATH, error=errno.EIO)
    with pytest.raises(StorageError, match="Input/output"):
        placements.add(ONE, "id-b")


@pytest.mark.parametrize("tail", [b'{"topic', b"\0\0\0\0", b"\0\0\0\n"])
def test_a_torn_last_line_is_none(disk: SimDisk, files: Files, tail: bytes) -> None:
    begun(files).add(ONE, "id-b")
    replace_file(files, PATH, disk.files()[PATH] + tail)
    assert Placements(files, HOME).partitions == {ONE: "id-b"}


@pytest.mark.parametrize(
    "line", [b"no json\n", b"{}\n", b'{"topic_id":"?","partition":0,"directory":"x"}\n', b"[1]\n"]
)
def test_a_garbled_line_is_no_guess(disk: SimDisk, files: Files, line: bytes) -> None:
    begun(files).add(ONE, "id-b")
    replace_file(files, PATH, line + disk.files()[PATH])
    with pytest.raises(CorruptLog, match="line 1"):
        Placements(files, HOME)


@pytest.mark.parametrize("hole", [b"\0" * 40 + b"\n", b'{"topic_id":"\0\0\0"}\n', b"\0" * 40])
def test_a_hole_that_a_power_loss_left_is_no_line(disk: SimDisk, files: Files, hole: bytes) -> None:
    """The blocks of unsynced lines reach the disk in any order."""
    begun(files).add(ONE, "id-b")
    durable = disk.files()[PATH]
    begun_and_lost = hole + durable[durable.rfind(b"\n", 0, -1) + 1 :].replace(b"0", b"1")
    replace_file(files, PATH, durable + begun_and_lost)
    found = Placements(files, HOME).partitions
    assert found[ONE] == "id-b"


def test_notes_of_topics_that_are_gone_go_with_the_next_start(files: Files) -> None:
    placements = begun(files)
    for placed in (ONE, TWO):
        placements.add(placed, "id-b")
    again = Placements(files, HOME)
    again.rewrite({}, {}, failed=(), guessed=(), is_known=lambda each: each == ONE)
    assert Placements(files, HOME).partitions == {ONE: "id-b"}
    assert Placements(files, HOME).directories == B
    again.rewrite({}, {}, failed=(), guessed=(), is_known=lambda _: False)
    assert Placements(files, HOME).directories == {}


def test_a_log_that_was_moved_is_where_it_was_found(files: Files) -> None:
    begun(files).add(ONE, "id-b")
    again = Placements(files, HOME)
    opened = {**B, "id-c": "/c"}
    again.rewrite(opened, {ONE: "id-c"}, failed=(), guessed=(), is_known=lambda _: True)
    assert Placements(files, HOME).partitions == {ONE: "id-c"}
