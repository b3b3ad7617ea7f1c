"""The entries of index files, with and without preallocated space."""

from pathlib import Path
from struct import Struct

import pytest

from ottla.cli.log.index_entries import read_entries
from ottla.errors import CorruptLog
from ottla.seams.files import RealFiles
from ottla.storage.log.index import CHUNK_BYTES

ENTRY = Struct(">ii")


def entries(path: Path, content: bytes) -> list[tuple[int, tuple[int, ...]]]:
    path.write_bytes(content)
    return [tuple(each) for each in read_entries(RealFiles(), str(path), ENTRY)]


def test_entries_have_their_positions(tmp_path: Path) -> None:
    content = ENTRY.pack(1, 100) + ENTRY.pack(2, 200)
    assert entries(tmp_path / "0.index", content) == [(0, (1, 100)), (8, (2, 200))]
    assert entries(tmp_path / "0.index", b"") == []


def test_preallocated_zeros_are_not_entries(tmp_path: Path) -> None:
    content = ENTRY.pack(1, 256) + bytes(3 * CHUNK_BYTES)
    assert entries(tmp_path / "0.index", content) == [(0, (1, 256))]
    assert entries(tmp_path / "0.index", bytes(CHUNK_BYTES)) == []


def test_a_partial_entry_is_damage(tmp_path: Path) -> None:
    with pytest.raises(CorruptLog) as damage:
        entries(tmp_path / "0.index", ENTRY.pack(1, 100) + b"\1\2\3")
    assert (damage.value.position, damage.value.reason) == (8, "3 bytes are not a whole entry")
