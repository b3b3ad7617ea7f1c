"""The locks of a data directory, and the removal of its data under them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from ottla.cli.broker.proc_table import LOCK_FILE, process_using
from ottla.cli.log.broker_files import classify_entries
from ottla.cli.shared.failure import Failure
from ottla.seams.files import Lock, RealFiles

# A file of every log directory, Kafka's or ours.
META_PROPERTIES = "meta.properties"


@contextmanager
def locked(data: str, *, makes_lock: bool) -> Iterator[None]:
    """Holds all locks that a broker takes in this directory. Failure if one is taken.

    A process of another user or in another PID namespace may be invisible in /proc, but its lock is
    not. `makes_lock` creates the directory's own lock file if there is none.
    """
    with ExitStack() as locks:
        for path in _lock_files(data, makes_lock=makes_lock):
            locks.callback(_lock(data, path).release)
        yield


class Removed(NamedTuple):
    """The entries that a removal kept, and why it kept the directory; None if it did not."""

    foreign: list[str]
    why_left: str | None


def remove(data: str) -> Removed:
    """Removes a broker's data from a directory whose locks are held, and the directory if it is
    then empty. Other files are kept.

    meta.properties is removed last but one, and the lock file last. A broker that starts meanwhile
    finds the lock taken or no log directory, and an interrupted removal can be repeated.
    """
    own, foreign = classify_entries(data)
    for name in own:
        path = os.path.join(data, name)
        if name in (META_PROPERTIES, LOCK_FILE):
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    for name in (META_PROPERTIES, LOCK_FILE):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(data, name))
    if foreign:
        return Removed(foreign, "it is not empty")
    try:
        os.rmdir(data)
    # It is a mount point, a symbolic link, or in use again.
    except OSError as error:
        return Removed([], error.strerror)
    return Removed([], None)


def _lock_files(data: str, *, makes_lock: bool) -> list[str]:
    """The lock file of the directory, and those inside: the metadata log has its own."""
    own = os.path.join(data, LOCK_FILE)
    if not os.path.isdir(data):
        return []
    inner = [os.path.join(data, name, LOCK_FILE) for name in classify_entries(data).own]
    found = [path for path in inner if os.path.exists(path)]
    return [own, *found] if makes_lock or os.path.exists(own) else found


def _lock(data: str, path: str) -> Lock:
    try:
        return RealFiles().lock(path)
    except BlockingIOError:
        holder = process_using(data)
        raise Failure(
            f"{data} is in use by {holder or 'a process that cannot be seen from here'}",
            why=f"{path} is locked" + ("" if holder else ", by another user or in a container"),
            advice="stop it where it was started",
        ) from None
    except PermissionError as error:
        raise Failure(
            f"{data} cannot be locked",
            why=f"{path}: {error.strerror}",
            advice="run this as the owner of the data",
        ) from error
