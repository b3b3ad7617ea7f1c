"""Bytes outside the page cache, on the kernel's and on the simulated disk."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.seams.files import RealFile, RealFiles, write_all
from tests.sim.seams.contents import PAGE_BYTES
from tests.sim.seams.disk import SimDisk

CONTENT = bytes(range(256)) * 400


def real_file(tmp_path: Path) -> RealFile:
    file = RealFiles().create(f"{tmp_path}/a")
    write_all(file, 0, [CONTENT])
    file.sync()
    return file


def test_a_read_without_waiting_returns_all_requested_bytes_or_none(tmp_path: Path) -> None:
    file = real_file(tmp_path)
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert file.read_warm(0, len(CONTENT)) in (None, CONTENT)
    file.warm(0, len(CONTENT))
    assert file.read_warm(0, len(CONTENT)) == CONTENT
    assert file.read_warm(100, 5) == CONTENT[100:105]
    assert file.read_warm(len(CONTENT) - 3, 100) == CONTENT[-3:]
    assert file.read_warm(len(CONTENT), 100) == b""
    assert file.read_warm(7, 0) == b""
    file.close()


@pytest.mark.parametrize("warm_bytes", [0, 1, 4096, len(CONTENT) - 1])
def test_a_piece_of_which_a_part_is_cold_is_cold(
    warm_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = real_file(tmp_path)

    def preadv(descriptor: int, buffers: Sequence[bytearray], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        found = os.pread(descriptor, max(0, min(len(buffers[0]), warm_bytes - position)), position)
        if not found:
            raise BlockingIOError(errno.EAGAIN, "cold")
        buffers[0][: len(found)] = found
        return len(found)

    monkeypatch.setattr(os, "preadv", preadv)
    assert file.read_warm(0, len(CONTENT)) is None
    assert not file.is_warm(warm_bytes)
    if warm_bytes:
        assert file.read_warm(0, warm_bytes) == CONTENT[:warm_bytes]
        assert file.is_warm(warm_bytes - 1)
    file.close()


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_nowait_has_no_cold_pages_and_is_probed_once(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = real_file(tmp_path)
    asked = []

    def preadv(*arguments: object) -> int:
        asked.append(arguments)
        raise OSError(code, "")

    monkeypatch.setattr(os, "preadv", preadv)
    for _ in range(3):
        assert file.read_warm(10, 1_000) == CONTENT[10:1_010]
        assert file.is_warm(0)
    assert len(asked) == 1
    file.close()


def test_a_disk_that_fails_is_not_taken_for_a_cold_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = real_file(tmp_path)

    def preadv(*_: object) -> int:
        raise OSError(errno.EIO, "")

    monkeypatch.setattr(os, "preadv", preadv)
    with pytest.raises(OSError, match="5"):
        file.read_warm(0, 10)
    with pytest.raises(OSError, match="5"):
        file.is_warm(0)
    file.close()


def test_the_simulated_disk_counts_the_cold_pages_that_somebody_waits_for() -> None:
    disk = SimDisk()
    file = disk.process().create("/a")
    write_all(file, 0, [CONTENT])
    assert file.read_warm(0, len(CONTENT)) == CONTENT
    disk.chill("/b")
    assert file.is_warm(0)
    disk.chill("/a")
    assert not file.is_warm(0)
    file.warm(PAGE_BYTES + 1, 1)
    assert file.is_warm(PAGE_BYTES)
    assert file.read_warm(PAGE_BYTES, PAGE_BYTES) == CONTENT[PAGE_BYTES : 2 * PAGE_BYTES]
    assert file.read_warm(PAGE_BYTES, PAGE_BYTES + 1) is None
    assert file.read_warm(PAGE_BYTES - 1, 1) is None
    assert disk.pages_waited_for == 0
    assert file.read_at(0, 3 * PAGE_BYTES) == CONTENT[: 3 * PAGE_BYTES]
    assert disk.pages_waited_for == 2
    assert file.read_warm(0, 3 * PAGE_BYTES) is not None
    file.write_at(5 * PAGE_BYTES, [b"new"])
    assert file.is_warm(5 * PAGE_BYTES)
    file.truncate(4 * PAGE_BYTES)
    assert file.read_warm(4 * PAGE_BYTES, 10) == b""
    assert not file.is_warm(3 * PAGE_BYTES)
