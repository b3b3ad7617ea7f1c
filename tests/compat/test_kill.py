"""A writer is killed with SIGKILL: acknowledged records are readable, and damage is detected."""

from pathlib import Path

import pytest

from ottla.protocol.batch import read_header
from tests.support.compat.append_until_killed import BATCHES_A_FLUSH, PARTITION, value_at
from tests.support.compat.killed_log import Killed, kill_a_writer, read_all


@pytest.fixture
def killed(tmp_path: Path) -> Killed:
    """Three flushes, and half a flush's worth of batches since."""
    batches = 3 * BATCHES_A_FLUSH + BATCHES_A_FLUSH // 2
    found = kill_a_writer(tmp_path / "log", batches=batches)
    assert found.appended > found.flushed > 0
    return found


def positions(path: Path) -> list[tuple[int, int]]:
    """Base offset and position of every batch of a file that is whole."""
    content = path.read_bytes()
    found = []
    position = 0
    while position < len(content):
        header = read_header(content, position)
        found.append((header.base_offset, position))
        position += header.size
    return found


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def test_every_acknowledged_record_reads_after_a_kill_under_load(tmp_path: Path) -> None:
    killed = kill_a_writer(tmp_path / "log", lines=200)
    directory = killed.reopen()
    found = read_all(directory)
    assert len(found) > killed.appended > killed.flushed
    assert [record.offset for record in found] == list(range(len(found)))
    assert all(record.value == value_at(record.offset) for record in found)


def test_recovery_reads_again_only_what_was_not_flushed(killed: Killed) -> None:
    directory = killed.reopen()
    log = directory.logs[PARTITION]
    assert len(read_all(directory)) == killed.appended + 1 == log.end_offset
    assert 0 < directory.recoveries[PARTITION].scanned_bytes < log.size_bytes // 2


def test_zeros_behind_the_last_batch_are_cut_and_cost_nothing(killed: Killed) -> None:
    with killed.segments[-1].open("ab") as file:
        file.write(bytes(5_000))
    directory = killed.reopen()
    assert directory.recoveries[PARTITION].cut_bytes == 5_000
    assert len(read_all(directory)) == killed.appended + 1


def test_a_flipped_byte_beyond_the_recovery_point_costs_what_follows_it(killed: Killed) -> None:
    base_offset, position = positions(killed.segments[-1])[-3]
    assert base_offset > killed.flushed
    flip(killed.segments[-1], position + 80)
    directory = killed.reopen()
    assert [record.offset for record in read_all(directory)] == list(range(base_offset))
    assert "checksum" in (directory.recoveries[PARTITION].cut_because or "")


def test_a_broken_chain_below_the_recovery_point_is_refused_and_not_cut(killed: Killed) -> None:
    # In the segment that recovery reads, below the point from which on it may cut.
    path = max(path for path in killed.segments if int(path.stem) < killed.flushed)
    base_offset, position = positions(path)[0]
    assert base_offset < killed.flushed
    flip(path, position + 16)  # the magic
    before = {path: path.read_bytes() for path in killed.segments}
    for index in path.parent.glob(f"{path.stem}.*index"):
        index.unlink()
    directory = killed.reopen()
    assert list(directory.unusable) == [PARTITION]
    assert f"{path}, byte {position}" in str(directory.unusable[PARTITION])
    assert {path: path.read_bytes() for path in killed.segments} == before


def test_a_flipped_byte_in_a_flushed_batch_is_left_for_verify_to_find(killed: Killed) -> None:
    base_offset, position = positions(killed.segments[0])[2]
    flip(killed.segments[0], position + 80)
    content = killed.segments[0].read_bytes()
    directory = killed.reopen()
    assert directory.unusable == {}
    assert base_offset < directory.logs[PARTITION].recovery_point
    assert killed.segments[0].read_bytes() == content
