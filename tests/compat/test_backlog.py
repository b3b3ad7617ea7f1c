"""The number of connections that wait while a broker is too busy: the backlog setting."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

ATTEMPTS = 12
# What finds no place is never taken, however often it asks; what finds one may have to wait for the
# processor.
PATIENCE_S = 5.0


def waiting_connections(data: Path, backlog: int) -> int:
    """How many of the attempts succeed while the broker's process stands still."""
    command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(data), "--port", "0"]
    command += ["--metrics-port", "0", "--set", f"socket.listen.backlog.size={backlog}"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker,
        ExitStack() as connected,
    ):
        try:
            assert broker.stdout is not None
            host, port = broker.stdout.readline().split()[1].removeprefix("kafka=").split(":")
            os.kill(broker.pid, signal.SIGSTOP)
            # Not before it stands still.
            os.waitid(os.P_PID, broker.pid, os.WSTOPPED | os.WNOWAIT)
            taken = 0
            for _ in range(ATTEMPTS):
                attempt = connected.enter_context(socket.socket())
                attempt.settimeout(PATIENCE_S)
                try:
                    attempt.connect((host, int(port)))
                except TimeoutError:
                    break
                taken += 1
            return taken
        finally:
            os.kill(broker.pid, signal.SIGCONT)
            broker.terminate()


def test_as_many_connections_wait_as_the_backlog_says(tmp_path: Path) -> None:
    # The kernel lets one more wait than it is told to.
    assert waiting_connections(tmp_path / "few", 2) == 3
    assert waiting_connections(tmp_path / "many", 1024) == ATTEMPTS
