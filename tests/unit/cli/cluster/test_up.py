"""`ottla up --brokers`, before anything is started."""

import socket
from pathlib import Path

import pytest

from ottla.cli.cluster import up
from tests.support.cli.run_command import ottla


def test_a_detached_start_with_a_taken_port_says_so_plainly_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "find_zookeeper", lambda: None)
    data = tmp_path / "cluster"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = ottla("up", "--brokers", "2", "--port", str(port), "--data", str(data), "--detach")
    assert ran.exit_code == 1
    assert ran.stderr.startswith(f"error: port {port} is taken by ")
    assert "did not start" not in ran.stderr
    assert not data.exists()
