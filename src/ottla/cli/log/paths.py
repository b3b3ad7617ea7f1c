"""Paths of files, partitions and log directories, and the locks of log directories."""

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


class LogPathKind(Enum):
    FILE = auto()
    PARTITION = auto()
    LOG_DIRECTORY = auto()


@dataclass(frozen=True, slots=True)
class LogPath:
    """A path, its kind, and the log directory that contains it, if any."""

    path: str
    kind: LogPathKind
    log_directory: str | None

    @classmethod
    def at(cls, files: Files, path: str) -> Self:
        """Failure if the path does not exist or holds no log."""
        path = os.path.abspath(path)
        if not files.exists(path):
            raise Failure(
                f"{path} does not exist",
                advice="name a segment file, a partition directory or a log directory",
                exit_code=ExitCode.NOT_FOUND,
            )
        if not files.is_dir(path):
            return cls(path, LogPathKind.FILE, _log_directory(files, os.path.dirname(path)))
        if is_partition(files, path):
            return cls(path, LogPathKind.PARTITION, _log_directory(files, path))
        if files.exists(f"{path}/{checkpoint_files.META_PROPERTIES}") or partition_paths(
            files, path
        ):
            return cls(path, LogPathKind.LOG_DIRECTORY, path)
        raise Failure(
            f"{path} holds no log",
            why="there is neither a segment nor a partition directory in it",
            advice="name a partition directory (topic-0) or a log directory",
            exit_code=ExitCode.NOT_FOUND,
        )


def is_partition(files: Files, path: str) -> bool:
    """Whether this is a partition directory, by its name and its files."""
    if checkpoint_files.parse_directory_name(os.path.basename(path)) is None:
        return False
    return any(
        name.endswith(LOG) or name in (checkpoint_files.PARTITION_METADATA, leader_epochs.FILE_NAME)
        for name in files.list(path)
    )


def partition_paths(files: Files, log_directory: str) -> list[str]:
    """The paths of the partition directories in a log directory, sorted by name."""
    paths = (f"{log_directory}/{name}" for name in files.list(log_directory))
    return [path for path in paths if files.is_dir(path) and is_partition(files, path)]


def recovery_points_path(files: Files, partition_path: str) -> str:
    """The checkpoint with a partition's recovery point: its own, or that of the log directory.

    The metadata log has its own.
    """
    own = f"{partition_path}/{checkpoint_files.RECOVERY_POINTS}"
    if files.exists(own):
        return own
    return f"{os.path.dirname(partition_path)}/{checkpoint_files.RECOVERY_POINTS}"


def _log_directory(files: Files, partition_path: str) -> str | None:
    """The log directory that contains a partition; a copied partition has none."""
    parent = os.path.dirname(partition_path)
    marks = (LOCK, checkpoint_files.META_PROPERTIES, checkpoint_files.RECOVERY_POINTS)
    return parent if any(files.exists(f"{parent}/{name}") for name in marks) else None


@contextmanager
def locked_for_reading(files: Files, log_directories: Iterable[str | None]) -> Iterator[None]:
    """Holds the existing locks, so that no broker starts to write meanwhile.

    Creates no lock file, because reading must change nothing. If permissions forbid opening a lock
    file, it warns and continues without the lock.
    """
    with ExitStack() as locks:
        for directory in sorted({directory for directory in log_directories if directory}):
            if not files.exists(f"{directory}/{LOCK}"):
                continue
            try:
                locks.callback(_lock(files, directory).release)
            except OSError as error:
                say(f"note: reading {directory} without its lock ({error.strerror})")
        yield


@contextmanager
def locked_for_writing(files: Files, log_directory: str) -> Iterator[None]:
    """Holds the lock of a directory that will be changed."""
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
            why="another process, probably a broker, holds its lock",
            advice="stop the broker first, or work on a copy of the directory",
        ) from None
