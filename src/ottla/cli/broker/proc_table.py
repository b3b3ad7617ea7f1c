"""The processes that hold a port or a file on this machine, from Linux's /proc."""

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENING = "0A"
# The columns of these tables.
_LOCAL_ADDRESS, _STATE, _INODE = 1, 3, 9
COMMAND_CHARACTERS_MAX = 60
# The states of an ended process: zombie and dead.
_ENDED = frozenset("ZX")
# The lock file of a log directory; Kafka's brokers hold it too.
LOCK_FILE = ".lock"


class Process(NamedTuple):
    """A running process and its command."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.command} (process {self.pid})"


def is_listened_on(port: int) -> bool:
    """Whether any process listens on this port, visible to us or not."""
    return bool(_listening_inodes(port))


def process_listening_on(port: int) -> Process | None:
    """The process that listens on this port; None if there is none that we may see."""
    links = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not links:
        return None
    return _first_process_with(lambda descriptor: os.readlink(descriptor) in links)


def process_holding(path: str) -> Process | None:
    """The process that has this file open; None if there is none that we may see."""
    try:
        wanted = os.stat(path)
    except FileNotFoundError:
        return None
    return _first_process_with(lambda descriptor: os.path.samestat(os.stat(descriptor), wanted))


def process_using(log_directory: str) -> Process | None:
    """The process that uses a log directory; None if there is none that we may see."""
    return process_holding(os.path.join(log_directory, LOCK_FILE))


def is_running(pid: int) -> bool:
    """Whether this process has not ended yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            after_name = file.read().rpartition(")")[2]
    # ProcessLookupError: it ended between open and read.
    except (FileNotFoundError, ProcessLookupError):
        return False
    return after_name.split()[0] not in _ENDED


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in _TABLES:
        for columns in _rows(table):
            local_port = int(columns[_LOCAL_ADDRESS].rpartition(":")[2], 16)
            if local_port == port and columns[_STATE] == _LISTENING:
                inodes.add(columns[_INODE])
    return inodes


def _rows(table: str) -> Iterator[list[str]]:
    try:
        with open(table, encoding="ascii") as file:
            next(file, None)
            for line in file:
                yield line.split()
    except FileNotFoundError:
        return


def _first_process_with(is_it: Callable[[str], bool]) -> Process | None:
    """The first process with a matching descriptor."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        directory = f"/proc/{name}/fd"
        try:
            descriptors = os.listdir(directory)
        # The process has ended, or belongs to another user.
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue
        for descriptor in descriptors:
            try:
                if is_it(f"{directory}/{descriptor}"):
                    return Process(int(name), _command(name))
            except (FileNotFoundError, PermissionError, ProcessLookupError):
                continue
    return None


def _command(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0").split(b"\0")
    except OSError:
        return "a process that has just ended"
    words[0] = os.path.basename(words[0])
    text = b" ".join(words).decode(errors="replace")
    if len(text) > COMMAND_CHARACTERS_MAX:
        text = f"{text[: COMMAND_CHARACTERS_MAX - 1]}…"
    return text
