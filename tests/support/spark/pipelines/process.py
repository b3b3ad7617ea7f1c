"""`ottla pipeline run` as a process with Java and workers that can be killed."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

WAIT_S = 600.0
CONF = {
    "spark.driver.memory": "512m",
    # No run lasts long enough to be worth Java's second compiler.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "10ms",
    "spark.sql.streaming.stopTimeout": f"{WAIT_S:.0f}s",
}

_ROWS = re.compile(r" batch [0-9]+: ([0-9,]+) rows")


class PipelineRun:
    """A run with a session and a process group of its own: Java and the workers are in it too."""

    def __init__(
        self,
        servers: str,
        topic: str,
        folder: Path,
        *arguments: str,
        conf: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "ottla.cli", "pipeline", "run", "trending"]
        command += ["-b", servers, "--topic", topic, "--to", str(folder), *arguments]
        for name, value in (CONF | dict(conf or {})).items():
            command += ["--conf", f"{name}={value}"]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | dict(environment or {}),
        )
        self._said: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def said(self) -> str:
        return "".join(self._said)

    @property
    def batches(self) -> int:
        """The number of batches that it has reported."""
        return sum(" batch " in line for line in self._said)

    @property
    def rows(self) -> int:
        """The number of rows of the reported batches."""
        told = _ROWS.findall(self.said)
        return sum(int(count.replace(",", "")) for count in told)

    def wait_for_batches(self, count: int) -> None:
        """Returns when it has reported so many. Fails if it ends before."""
        self._wait_until(lambda: self.batches >= count)

    def wait_for_rows(self) -> None:
        """Returns when it has reported some. Fails if it ends before."""
        self._wait_until(lambda: self.rows > 0)

    def kill(self) -> None:
        """At once, Python and Java alike. Fails if it has ended by itself before."""
        assert self._process.poll() is None, self.said
        os.killpg(self._process.pid, signal.SIGKILL)
        self.wait()

    def interrupt(self) -> None:
        """As Ctrl-C in a terminal does: everybody in the group hears it."""
        os.killpg(self._process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """As a supervisor does: the process alone hears it."""
        self._process.terminate()

    def wait(self) -> int:
        """The exit code."""
        code = self._process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        assert self._process.stderr is not None
        self._process.stderr.close()
        return code

    def close(self) -> None:
        """Whatever it does, it is gone on return."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait(WAIT_S)

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: is_so() or self._process.poll() is not None, WAIT_S)
        assert is_so(), self.said
        assert self._process.poll() is None, self.said

    def _read(self) -> None:
        for line in self._lines():
            with self._changed:
                self._said.append(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _lines(self) -> Iterable[str]:
        assert self._process.stderr is not None
        return self._process.stderr
