"""What a path names (a file, a partition, a log directory), and the lock that guards it."""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Self

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import say
from ottla.seams.files import Files, Lock
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.directory_opening import LOCK
from ottla.storage.log import leader_epochs
from ottla.storage.log.segment import LOG


class PlaceKind(Enum):
    FILE = auto()
    PARTITION = auto()
    LOG_DIRECTORY = auto()


@dataclass(frozen=True, slots=True)
class Place:
    """A path, what it names, and the log directory around it if there is one."""

    path: str
    kind: PlaceKind
    log_directory: str | None

    @classmethod
    def at(cls, files: Files, path: str) -> Self:
        """Failure if there is nothing, or nothing that a log consists of."""
        path = os.path.abspath(path)
        if not files.exists(path):
            raise Failure(
                f"{path} does not exist",
                advice="name a segment's file, a partition's directory or a log directory",
                exit_code=ExitCode.NOT_FOUND,
            )
        if not files.is_dir(path):
            return cls(path, PlaceKind.FILE, _log_directory(files, os.path.dirname(path)))
        if is_partition(files, path):
            return cls(path, PlaceKind.PARTITION, _log_directory(files, path))
        if files.exists(f"{path}/{checkpoint_files.META_PROPERTIES}") or partitions_of(files, path):
            return cls(path, PlaceKind.LOG_DIRECTORY, path)
        raise Failure(
            f"{path} holds no log",
            why="there is neither a segment nor a partition's directory in it",
            advice="name a partition's directory (topic-0) or the directory that holds them",
            exit_code=ExitCode.NOT_FOUND,
        )


def is_partition(files: Files, path: str) -> bool:
    """Whether this directory is a partition's, by its name and by what lies in it."""
    if checkpoint_files.parse_directory_name(os.path.basename(path)) is None:
        return False
    return any(
        name.endswith(LOG) or name in (checkpoint_files.PARTITION_METADATA, leader_epochs.FILE_NAME)
        for name in files.list(path)
    )


def partitions_of(files: Files, log_directory: str) -> list[str]:
    """The paths of the partitions in a log directory, by name."""
    paths = (f"{log_directory}/{name}" for name in files.list(log_directory))
    return [path for path in paths if files.is_dir(path) and is_partition(files, path)]


def recovery_points_path(files: Files, partition_path: str) -> str:
    """The checkpoint that has a partition's recovery point: its own one, or all partitions'.

    The metadata's log has its own.
    """
    own = f"{partition_path}/{checkpoint_files.RECOVERY_POINTS}"
    if files.exists(own):
        return own
    return f"{os.path.dirname(partition_path)}/{checkpoint_files.RECOVERY_POINTS}"


def _log_directory(files: Files, partition_path: str) -> str | None:
    """The log directory around a partition; a copied partition has none."""
    parent = os.path.dirname(partition_path)
    marks = (LOCK, checkpoint_files.META_PROPERTIES, checkpoint_files.RECOVERY_POINTS)
    return parent if any(files.exists(f"{parent}/{name}") for name in marks) else None


@contextmanager
def held_for_reading(files: Files, log_directories: Iterable[str | None]) -> Iterator[None]:
    """Holds the locks that are there, so that no broker starts to write meanwhile.

    Makes no lock: where nobody may run there is none to hold, and nothing here is changed. Where
    a lock cannot be opened for want of permission the user is told and reading goes on.
    """
    with ExitStack() as held:
        for directory in sorted({directory for directory in log_directories if directory}):
            if not files.exists(f"{directory}/{LOCK}"):
                continue
            try:
                held.callback(_lock(files, directory).release)
            except OSError as error:
                say(f"note: {directory} is read without its lock ({error.strerror})")
        yield


@contextmanager
def held_for_writing(files: Files, log_directory: str) -> Iterator[None]:
    """Holds the lock of a directory that is about to change."""
    lock = _lock(files, log_directory)
    try:
        yield
    finally:
        lock.release()


def _lock(files: Files, log_directory: str) -> Lock:
    try:
        return files.lock(f"{log_directory}/{LOCK}")
    except BlockingIOError:
        raise Failure(
            f"{log_directory} is in use",
            why="another process holds its lock, a broker most likely",
            advice="stop the broker first, or work on a copy of the directory",
        ) from None
