"""Starts the process in which Spark runs, reads its messages, and ends all its children."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import TracebackType

from ottla.cli.sql.worker_protocol import Message, QueryJob, ResultRow, decode_line

# How long Java may take to remove its files before it is killed.
GRACE_S = 10.0
_POLL_S = 0.02
# prctl(2): orphaned descendants become children of this process.
_PR_SET_CHILD_SUBREAPER = 36


class SparkProcess:
    """A Spark process for one job. The end of the `with` block ends it and all its children."""

    def __init__(self, job: QueryJob, log_descriptor: int) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # Its own session: Ctrl-C reaches only this process, which ends the child's process group.
        # -P keeps modules in the current directory from being imported.
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "ottla.cli.sql.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_descriptor,
            start_new_session=True,
        )
        self._job = job

    def __enter__(self) -> "SparkProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def messages(self) -> Iterator[Message | ResultRow]:
        """Its messages as they arrive, until it ends."""
        child = self._child
        if child.stdin is None or child.stdout is None:
            return
        with child.stdin:
            child.stdin.write(self._job.encode())
        for line in child.stdout:
            yield decode_line(line)

    def _stop(self) -> None:
        """Gives Java time to remove its files, then kills it."""
        self._signal(signal.SIGTERM)
        until = time.monotonic() + GRACE_S
        while not self._is_gone():
            if time.monotonic() >= until:
                self._signal(signal.SIGKILL)
            time.sleep(_POLL_S)
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._child.pid, number)
        except ProcessLookupError:
            return

    def _is_gone(self) -> bool:
        """Whether no process of its group is left. Its orphans have become our children."""
        try:
            while os.waitpid(-self._child.pid, os.WNOHANG)[0] != 0:
                continue
        except ChildProcessError:
            return True
        return False
