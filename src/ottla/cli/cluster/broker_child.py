"""A broker as a child process of a supervisor."""

import os
import re
import signal
import subprocess

from ottla.cli.broker.invocation import BrokerInvocation
from ottla.cli.broker.pid_file import open_private
from ottla.cli.broker.start_failure import start_failure
from ottla.cli.cluster.child_process import die_with_parent
from ottla.cli.shared.failure import Failure

_READY = re.compile(r"ready kafka=(\S+) metrics=(\S+) pid=([0-9]+)\n")


class BrokerChild:
    """One broker, its data and its ports, over all its restarts."""

    def __init__(
        self, broker_id: int, invocation: BrokerInvocation, data: str, log: str | None
    ) -> None:
        """`log` is the file of its log; without one it writes to the supervisor's stderr."""
        self.broker_id = broker_id
        self.data = data
        self.kafka = self.metrics = ""
        self._invocation = invocation
        self._log = log
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""

    @property
    def name(self) -> str:
        return f"broker {self.broker_id}"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def ended(self) -> int | None:
        """The exit code of a process that has ended by itself."""
        return None if self._process is None else self._process.poll()

    @property
    def is_ready(self) -> bool:
        """Whether it serves. Does not block."""
        process = self._process
        if process is None or process.stdout is None or self.kafka:
            return self.kafka != ""
        self._said += process.stdout.read() or b""
        found = _READY.search(self._said.decode(errors="replace"))
        if found is not None:
            self.kafka, self.metrics = found[1], found[2]
        return found is not None

    def start(self) -> None:
        """Starts the process, without waiting until it serves."""
        self.kafka, self.metrics, self._said = "", "", b""
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        if self._log is None:
            self._process = self._popen(None)
        else:
            os.makedirs(os.path.dirname(self._log), mode=0o700, exist_ok=True)
            with open(self._log, "ab", opener=open_private) as log:
                self._log_start = log.tell()
                self._process = self._popen(log.fileno())
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    def start_failure(self) -> Failure:
        """For a process that ended before it was ready."""
        exit_code = self.ended or 0
        if self._log is None:
            return Failure(f"{self.name} did not start", why="its error is above")
        return start_failure(self.name, exit_code, self._log, self._log_start)

    def begin_stop(self) -> None:
        """Asks for a controlled shutdown."""
        if self.pid is not None and self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            # A stopped process would not end.
            self._process.send_signal(signal.SIGCONT)

    def finish_stop(self, timeout_s: float) -> bool:
        """Waits, and kills it after the timeout. Whether it ended by itself."""
        process, self._process = self._process, None
        if process is None:
            return True
        with process:
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                return False
        return True

    def _popen(self, stderr: int | None) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - our own interpreter and module
            self._invocation.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            # Not in the terminal's group: Ctrl-C reaches the supervisor only.
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
