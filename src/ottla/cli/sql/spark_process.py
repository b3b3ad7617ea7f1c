"""Starts the process in which Spark runs, hears what it says, and leaves nothing of it behind."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import TracebackType

from ottla.cli.sql.worker_protocol import Message, Order, Row, decode_line

# How long Java may take to remove its files before it is ended for good.
GRACE_S = 10.0
_LOOK_S = 0.02
# Of `prctl`: whoever is left of a child that has ended becomes a child of this process.
_PR_SET_CHILD_SUBREAPER = 36


class SparkProcess:
    """Spark at work on one order; with all that it has started, it ends where the block does."""

    def __init__(self, order: Order, log_descriptor: int) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # A session of its own: a Ctrl-C on the terminal is for us, and we end it by its group.
        # With -P, what lies in the current directory is not imported by chance.
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "ottla.cli.sql.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_descriptor,
            start_new_session=True,
        )
        self._order = order

    def __enter__(self) -> "SparkProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def answers(self) -> Iterator[Message | Row]:
        """What it says, as it comes, until it ends."""
        child = self._child
        if child.stdin is None or child.stdout is None:
            return
        with child.stdin:
            child.stdin.write(self._order.encode())
        for line in child.stdout:
            yield decode_line(line)

    def _stop(self) -> None:
        """Java gets the time to remove its files, but not for ever."""
        self._signal(signal.SIGTERM)
        until = time.monotonic() + GRACE_S
        while not self._is_gone():
            if time.monotonic() >= until:
                self._signal(signal.SIGKILL)
            time.sleep(_LOOK_S)
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._child.pid, number)
        except ProcessLookupError:
            return

    def _is_gone(self) -> bool:
        """Whether nobody of its group is left; orphans of it have become our children."""
        try:
            while os.waitpid(-self._child.pid, os.WNOHANG)[0] != 0:
                continue
        except ChildProcessError:
            return True
        return False
