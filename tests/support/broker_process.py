"""A broker as a process of its own (`ottla serve`), on any free port."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

READY = "ready"


class BrokerProcess:
    """Serves for the length of a `with`, unless it is stopped or killed before."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(directory)]
        command += ["--port", "0", "--metrics-port", "0", *options]
        for name, value in (settings or {}).items():
            command += ["--set", f"{name}={value}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        kind, *fields = self._process.stdout.readline().split() or [""]
        if kind != READY:
            self.kill()
            raise RuntimeError(f"the broker did not start on {directory}")
        self.bootstrap_servers = dict(each.split("=", 1) for each in fields)["kafka"]

    def stop(self) -> None:
        """Cleanly."""
        self._process.terminate()
        self._process.communicate()
        assert self._process.returncode == 0

    def kill(self) -> None:
        """As an out-of-memory killer does."""
        self._process.kill()
        self._process.communicate()

    def _end(self) -> None:
        if self._process.poll() is None:
            self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
