"""The processes that hold a port or a file, from /proc."""

import os
import socket
from pathlib import Path

import pytest

from ottla.cli.broker import proc_table


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_the_holder_of_a_port_is_found_by_either_protocol(
    port: int, family: socket.AddressFamily, host: str
) -> None:
    with socket.create_server((host, port), family=family):
        holder = proc_table.process_listening_on(port)
        assert holder is not None
        assert holder.pid == os.getpid()
        assert proc_table.is_listened_on(port)
    assert proc_table.process_listening_on(port) is None


def test_the_holder_of_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "held"
    assert proc_table.process_holding(str(path)) is None
    with path.open("w"):
        holder = proc_table.process_holding(str(path))
        assert holder is not None
        assert holder.pid == os.getpid()
    assert proc_table.process_holding(str(path)) is None
