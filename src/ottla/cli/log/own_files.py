"""Which entries of a directory are a broker's: its root files and its partitions' directories.

A log directory may lie in a directory that holds other files, such as a project's. What is not
known to be a broker's is not a broker's.
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from ottla.cli.broker.pid_file import PID_FILE
from ottla.metadata import incarnation
from ottla.metadata.embedded import snapshot_file
from ottla.storage.directory import checkpoint_files, placements
from ottla.storage.directory.directory_opening import LOCK
from ottla.storage.log import leader_epochs
from ottla.storage.opening import unsynced_tail

# What a broker says that `ottla up --detach` started.
LOG_FILE = "ottla.log"
# A partition's directory while `ottla log adopt` fills it.
UNFINISHED = ".adopting"
# A file that `ottla log verify --repair` has set aside.
DAMAGED = ".damaged"

_ROOT_FILES = (
    checkpoint_files.META_PROPERTIES,
    checkpoint_files.CLEAN_SHUTDOWN,
    checkpoint_files.RECOVERY_POINTS,
    checkpoint_files.LOG_START_OFFSETS,
    checkpoint_files.HIGH_WATERMARKS,
    checkpoint_files.CLEANER_OFFSETS,
    placements.FILE_NAME,
    incarnation.FILE_NAME,
    LOCK,
    PID_FILE,
    LOG_FILE,
)
_PARTITION_FILES = (
    checkpoint_files.PARTITION_METADATA,
    checkpoint_files.RECOVERY_POINTS,
    leader_epochs.FILE_NAME,
    unsynced_tail.MARK,
    snapshot_file.FILE_NAME,
    # Of Kafka's own metadata.
    "quorum-state",
    LOCK,
)
# A file while it is written, or set aside.
_VARIANT = rf"(\.tmp|(\.[0-9]+)?{re.escape(DAMAGED)})?"
_ROOT_FILE = re.compile(rf"({'|'.join(map(re.escape, _ROOT_FILES))}){_VARIANT}")
# Segments, their indexes and snapshots begin with an offset, in all their variants.
_PARTITION_FILE = re.compile(
    rf"[0-9]{{20}}[.-][a-z0-9.-]+|({'|'.join(map(re.escape, _PARTITION_FILES))}){_VARIANT}"
)
# The name of a deleted partition may be cut before its number.
_SET_ASIDE = re.compile(r"[a-zA-Z0-9._-]+\.[0-9a-f]{32}-(delete|stray|future)", re.ASCII)

_NAMES_LISTED_MAX = 10


class Entries(NamedTuple):
    """The names in a directory, each in order."""

    own: list[str]
    foreign: list[str]


def entries_of(directory: str) -> Entries:
    """Tells a broker's entries from all others; no entries if there is no directory."""
    entries = Entries([], [])
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return entries
    for name in names:
        is_own = _is_own(os.path.join(directory, name))
        (entries.own if is_own else entries.foreign).append(name)
    return entries


def listed(names: Sequence[str]) -> str:
    """Names for people: the first few, and how many more there are."""
    shown = [name if name.isprintable() else ascii(name) for name in names[:_NAMES_LISTED_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def foreign_in_new(directory: str) -> list[str]:
    """The foreign entries of a directory that is not a log directory yet."""
    own, foreign = entries_of(directory)
    return [] if checkpoint_files.META_PROPERTIES in own else foreign


def _is_own(path: str) -> bool:
    name = os.path.basename(path)
    if not os.path.isdir(path):
        return _ROOT_FILE.fullmatch(name) is not None
    return _is_partition_name(name) and _holds_only_a_log(path)


def _is_partition_name(name: str) -> bool:
    partition = checkpoint_files.parse_directory_name(name.removesuffix(UNFINISHED))
    return partition is not None or _SET_ASIDE.fullmatch(name) is not None


def _holds_only_a_log(path: str) -> bool:
    """A crash may leave a partition's directory empty."""
    with os.scandir(path) as entries:
        return all(
            not entry.is_dir() and _PARTITION_FILE.fullmatch(entry.name) for entry in entries
        )
