"""Early writeback is a hint: without support for it, nothing happens."""

from pathlib import Path

import pytest

from ottla.seams import files as seam
from ottla.seams.files import RealFiles, read_file, write_all
from tests.sim.seams.disk import SimDisk


def test_early_writeback_changes_no_bytes(tmp_path: Path) -> None:
    files = RealFiles()
    file = files.create(f"{tmp_path}/f")
    write_all(file, 0, [b"x" * 100_000])
    file.start_writeback(0, 100_000)
    file.start_writeback(90_000, 1 << 30)
    assert read_file(files, f"{tmp_path}/f") == b"x" * 100_000
    file.close()
    file.start_writeback(0, 1)


def test_the_kernel_starts_the_writeback_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, ...]] = []

    def sync_file_range(*arguments: int) -> int:
        asked.append(arguments)
        return 0

    monkeypatch.setattr(seam, "_sync_file_range", lambda: sync_file_range)
    file = RealFiles().create(f"{tmp_path}/f")
    file.start_writeback(8 << 20, 5 << 30)
    assert asked == [(file.fileno(), 8 << 20, 5 << 30, 2)]
    file.close()


def test_a_c_library_without_it_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seam, "_sync_file_range", lambda: None)
    file = RealFiles().create(f"{tmp_path}/f")
    file.start_writeback(0, 1)
    assert file.size() == 0
    file.close()


def test_a_simulated_disk_notes_it_and_promises_nothing() -> None:
    files = SimDisk(0).process()
    file = files.create("/f")
    file.write_at(0, [b"abc"])
    file.start_writeback(0, 3)
    assert files.writebacks == [("/f", 0, 3)]
