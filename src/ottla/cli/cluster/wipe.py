"""The data of a cluster that `ottla up --brokers` made: what is ours, and its removal."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from ottla.cli.broker import wipe as broker_wipe
from ottla.cli.broker.pid_file import PID_FILE
from ottla.cli.broker.proc_table import LOCK_FILE
from ottla.cli.broker.wipe import Removed, locked
from ottla.cli.cluster.cluster_file import FILE_NAME, zookeeper_directory
from ottla.cli.cluster.zookeeper_servers import LOG_NAME
from ottla.cli.log.broker_files import LOG_FILE, Entries, classify_entries

_FILES = (FILE_NAME, f"{FILE_NAME}.tmp", PID_FILE, f"{PID_FILE}.tmp", LOG_FILE, LOCK_FILE)
_BROKER = re.compile(r"broker-[0-9]+")
_SERVER = re.compile(r"server-[0-9]+")
# Relative to the directory of a server.
_SERVER_ENTRIES = frozenset({"zoo.cfg", LOG_NAME, "data", "data/myid", "data/version-2"})
_ZOOKEEPER_FILES = re.compile(r"(log|snapshot)\.[0-9a-f]+|acceptedEpoch|currentEpoch")


def classify_cluster(data: str) -> Entries:
    """The entries of the directory; one with foreign entries inside is foreign itself."""
    entries = Entries([], [])
    for name in sorted(os.listdir(data)) if os.path.isdir(data) else ():
        is_own = _is_own(os.path.join(data, name))
        (entries.own if is_own else entries.foreign).append(name)
    return entries


@contextmanager
def locked_cluster(data: str) -> Iterator[None]:
    """Holds the locks of the supervisor and of all brokers. Failure if one is taken."""
    with ExitStack() as locks:
        locks.enter_context(locked(data, makes_lock=True))
        for path in _broker_directories(data):
            locks.enter_context(locked(path, makes_lock=False))
        yield


def remove_cluster(data: str) -> Removed:
    """Removes what is ours, and the directory if it is then empty. All locks are held.

    The cluster's file goes last but one, so that an interrupted removal can be repeated.
    """
    kept: list[str] = []
    for path in _broker_directories(data):
        left = broker_wipe.remove(path)
        kept += [os.path.join(os.path.basename(path), name) for name in left.foreign]
    zookeeper = zookeeper_directory(data)
    if os.path.isdir(zookeeper) and not os.path.islink(zookeeper):
        for name in sorted(os.listdir(zookeeper)):
            path = os.path.join(zookeeper, name)
            if _is_server(path):
                shutil.rmtree(path)
            else:
                kept.append(os.path.join("zookeeper", name))
        with suppress(OSError):
            os.rmdir(zookeeper)
    kept += [
        name for name in os.listdir(data) if name not in _FILES and not _is_cluster_directory(name)
    ]
    for name in (*(each for each in _FILES if each not in (FILE_NAME, LOCK_FILE)), FILE_NAME):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(data, name))
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(data, LOCK_FILE))
    if kept:
        return Removed(sorted(kept), "it is not empty")
    try:
        os.rmdir(data)
    except OSError as error:
        return Removed([], error.strerror)
    return Removed([], None)


def _is_cluster_directory(name: str) -> bool:
    return name == "zookeeper" or _BROKER.fullmatch(name) is not None


def _broker_directories(data: str) -> list[str]:
    paths = [
        os.path.join(data, name) for name in sorted(os.listdir(data)) if _BROKER.fullmatch(name)
    ]
    return [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]


def _is_own(path: str) -> bool:
    name = os.path.basename(path)
    if name in _FILES:
        return not os.path.isdir(path)
    if os.path.islink(path) or not os.path.isdir(path):
        return False
    if name == "zookeeper":
        return all(_is_server(os.path.join(path, each)) for each in os.listdir(path))
    return _BROKER.fullmatch(name) is not None and not classify_entries(path).foreign


def _is_server(path: str) -> bool:
    """Whether it has only a ZooKeeper server's files."""
    if _SERVER.fullmatch(os.path.basename(path)) is None or os.path.islink(path):
        return False
    for directory, directories, files in os.walk(path):
        inside = os.path.relpath(directory, path)
        for name in (*directories, *files):
            entry = os.path.normpath(os.path.join(inside, name))
            if entry in _SERVER_ENTRIES:
                continue
            if inside != "data/version-2" or not _ZOOKEEPER_FILES.match(name):
                return False
    return os.path.isdir(path)
