"""The locks of a data directory, and its removal under them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from ottla.cli.broker.proc_table import LOCK_FILE, user_of
from ottla.cli.log.broker_files import entries_of
from ottla.cli.shared.failure import Failure
from ottla.seams.files import Lock, RealFiles

# What every log directory has, Kafka's or ours.
NAME_TAG = "meta.properties"


@contextmanager
def held(data: str, *, makes_lock: bool) -> Iterator[None]:
    """Holds every lock that a broker takes of this directory. Failure if one is taken.

    A process may be another user's, or live in another PID namespace, where nobody sees it. Its
    lock is seen by everybody. `makes_lock` makes the directory's own lock where there is none.
    """
    with ExitStack() as locks:
        for path in _lock_files(data, makes_lock=makes_lock):
            locks.callback(_lock(data, path).release)
        yield


class Removed(NamedTuple):
    """What a removal has left, and why the directory itself is left, if it is."""

    foreign: list[str]
    why_left: str | None


def remove(data: str) -> Removed:
    """Removes a broker's data from a directory whose locks are held, and the directory if it is
    empty then. What is not a broker's stays.

    Its lock goes last, and its name tag before that. Whoever starts meanwhile finds the lock taken
    or no log directory, and a removal that was interrupted can be repeated.
    """
    own, foreign = entries_of(data)
    for name in own:
        path = os.path.join(data, name)
        if name in (NAME_TAG, LOCK_FILE):
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    for name in (NAME_TAG, LOCK_FILE):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(data, name))
    if foreign:
        return Removed(foreign, "it is not empty")
    try:
        os.rmdir(data)
    # It is where a disk is mounted, or a link, or in use anew.
    except OSError as error:
        return Removed([], error.strerror)
    return Removed([], None)


def _lock_files(data: str, *, makes_lock: bool) -> list[str]:
    """The directory's own, and those in it: the metadata's log has one of its own."""
    own = os.path.join(data, LOCK_FILE)
    if not os.path.isdir(data):
        return []
    inner = [os.path.join(data, name, LOCK_FILE) for name in entries_of(data).own]
    found = [path for path in inner if os.path.exists(path)]
    return [own, *found] if makes_lock or os.path.exists(own) else found


def _lock(data: str, path: str) -> Lock:
    try:
        return RealFiles().lock(path)
    except BlockingIOError:
        holder = user_of(data)
        raise Failure(
            f"{data} is in use by {holder or 'a process that cannot be seen from here'}",
            why=f"{path} is locked" + ("" if holder else ", by another user or in a container"),
            advice="stop it where it was started",
        ) from None
    except PermissionError as error:
        raise Failure(
            f"{data} cannot be locked",
            why=f"{path}: {error.strerror}",
            advice="run this as the user whose data it is",
        ) from error
