"""Network namespaces of one run: one for each host, one for the clients, one for the switch."""

import ctypes
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

COMMAND_TIMEOUT_S = 30.0
_NAMES = Path("/run/netns")
_OWN_NAME = re.compile(r"ottla-chaos-([0-9]+)-")
_CLONE_NEWNET = 0x40000000


class CommandFailed(Exception):
    """A command of the machine's network failed."""


def run_command(command: Iterable[str], stdin: str | None = None) -> str:
    """What it printed. CommandFailed."""
    listed = list(command)
    done = subprocess.run(
        listed, input=stdin, capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S
    )
    if done.returncode:
        raise CommandFailed(f"{' '.join(listed)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Namespace:
    """A network namespace, and a thread of this process inside it."""

    def __init__(self, label: str) -> None:
        """The label is unique in this process; the name contains the process id."""
        self.name = f"ottla-chaos-{os.getpid()}-{label}"
        self._thread: ThreadPoolExecutor | None = None

    @property
    def prefix(self) -> list[str]:
        """Put before a command line, runs it inside. The process id stays that of the command."""
        return ["nsenter", f"--net={_NAMES / self.name}"]

    def add(self) -> None:
        run_command(["ip", "netns", "add", self.name])
        self._thread = ThreadPoolExecutor(1, self.name, initializer=self._enter)
        run_command(["ip", "-n", self.name, "link", "set", "lo", "up"])

    def remove(self) -> None:
        """Also removes its interfaces, once no process is inside any more."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        _remove(self.name)

    def call(self, function: Callable[[], T]) -> T:
        """Calls it in the thread inside: sockets and threads that it makes are of the namespace."""
        if self._thread is None:
            raise RuntimeError(f"{self.name} does not exist")
        return self._thread.submit(function).result()

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with open(_NAMES / self.name, "rb") as name:
            if libc.setns(name.fileno(), _CLONE_NEWNET) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), self.name)


def remove_leftovers() -> None:
    """Removes the namespaces of runs whose process was killed."""
    for path in _NAMES.glob("ottla-chaos-*"):
        found = _OWN_NAME.match(path.name)
        if found is not None and not Path(f"/proc/{found[1]}").exists():
            _remove(path.name)


def _remove(name: str) -> None:
    if (_NAMES / name).exists():
        run_command(["ip", "netns", "del", name])
