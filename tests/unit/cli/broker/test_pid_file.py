"""The pid file in a data directory."""

from pathlib import Path

import pytest

from ottla.cli.broker.pid_file import PID_FILE, read_pid, remove_pid, write_pid


def test_a_written_pid_is_read_until_it_is_removed(tmp_path: Path) -> None:
    write_pid(str(tmp_path), 1)
    write_pid(str(tmp_path), 4321)
    assert read_pid(str(tmp_path)) == 4321
    assert [path.name for path in tmp_path.iterdir()] == [PID_FILE]
    assert (tmp_path / PID_FILE).stat().st_mode & 0o777 == 0o600
    remove_pid(str(tmp_path))
    remove_pid(str(tmp_path))
    assert read_pid(str(tmp_path)) is None


@pytest.mark.parametrize("content", ["", "not a number", "é"])
def test_an_invalid_file_has_no_pid(tmp_path: Path, content: str) -> None:
    (tmp_path / PID_FILE).write_text(content)
    assert read_pid(str(tmp_path)) is None
