"""The pid file in the data directory: the id of the process that `ottla up` started for it."""

import os
from contextlib import suppress

PID_FILE = "ottla.pid"


def open_private(path: str, flags: int) -> int:
    """An opener for a new file that only its owner may read, like the data beside it."""
    return os.open(path, flags, 0o600)


def write_pid(data: str, pid: int) -> None:
    """Writes the file atomically."""
    path = os.path.join(data, PID_FILE)
    with open(f"{path}.tmp", "w", encoding="ascii", opener=open_private) as file:
        file.write(f"{pid}\n")
    os.replace(f"{path}.tmp", path)


def read_pid(data: str) -> int | None:
    """The process id; None if there is no valid file."""
    with (
        suppress(OSError, ValueError),
        open(os.path.join(data, PID_FILE), encoding="ascii") as file,
    ):
        return int(file.read(32))
    return None


def remove_pid(data: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(data, PID_FILE))
