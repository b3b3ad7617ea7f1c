"""Classifies the entries of a directory: a broker's files and partition directories, or foreign.

A data directory may also hold other files, such as a project's. Entries that are not known to be a
broker's are foreign.
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from ottla.cli.broker.pid_file import PID_FILE
from ottla.metadata import applied_offset, incarnation
from ottla.metadata.embedded import snapshot_file
from ottla.storage.directory import checkpoint_files, move_mark, placements
from ottla.storage.directory.directory_opening import LOCK
from ottla.storage.log import leader_epochs
from ottla.storage.opening import cut_mark, unsynced_tail

# The log of a broker that `ottla up --detach` started.
LOG_FILE = "ottla.log"
# A partition directory while `ottla log adopt` copies into it.
ADOPTING_SUFFIX = ".adopting"
# A file that `ottla log verify --repair` has set aside.
DAMAGED_SUFFIX = ".damaged"

_ROOT_FILES = (
    checkpoint_files.META_PROPERTIES,
    checkpoint_files.CLEAN_SHUTDOWN,
    checkpoint_files.RECOVERY_POINTS,
    checkpoint_files.LOG_START_OFFSETS,
    checkpoint_files.HIGH_WATERMARKS,
    checkpoint_files.CLEANER_OFFSETS,
    placements.FILE_NAME,
    incarnation.FILE_NAME,
    applied_offset.FILE_NAME,
    LOCK,
    PID_FILE,
    LOG_FILE,
)
_PARTITION_FILES = (
    checkpoint_files.PARTITION_METADATA,
    checkpoint_files.RECOVERY_POINTS,
    leader_epochs.FILE_NAME,
    unsynced_tail.MARK,
    cut_mark.MARK,
    move_mark.MARK,
    snapshot_file.FILE_NAME,
    # Kafka's own metadata.
    "quorum-state",
    LOCK,
)
# Suffixes of a file that is being written, or was set aside.
_VARIANT = rf"(\.tmp|(\.[0-9]+)?{re.escape(DAMAGED_SUFFIX)})?"
_ROOT_FILE = re.compile(rf"({'|'.join(map(re.escape, _ROOT_FILES))}){_VARIANT}")
# The names of segments, indexes and snapshots begin with an offset, with any suffix.
_PARTITION_FILE = re.compile(
    rf"[0-9]{{20}}[.-][a-z0-9.-]+|({'|'.join(map(re.escape, _PARTITION_FILES))}){_VARIANT}"
)
# The name of a deleted partition may be truncated before its number.
_SET_ASIDE = re.compile(r"[a-zA-Z0-9._-]+\.[0-9a-f]{32}-(delete|stray|future)", re.ASCII)

_NAMES_LISTED_MAX = 10


class Entries(NamedTuple):
    """The names in a directory, sorted."""

    own: list[str]
    foreign: list[str]


def classify_entries(directory: str) -> Entries:
    """Separates a broker's entries from foreign ones; both empty if there is no directory."""
    entries = Entries([], [])
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return entries
    for name in names:
        is_own = _is_own(os.path.join(directory, name))
        (entries.own if is_own else entries.foreign).append(name)
    return entries


def abbreviated(names: Sequence[str]) -> str:
    """The first few names, and the number of the others."""
    shown = [name if name.isprintable() else ascii(name) for name in names[:_NAMES_LISTED_MAX]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def foreign_entries_of_new(directory: str) -> list[str]:
    """The foreign entries of a directory that is not a log directory yet; otherwise none."""
    own, foreign = classify_entries(directory)
    return [] if checkpoint_files.META_PROPERTIES in own else foreign


def _is_own(path: str) -> bool:
    name = os.path.basename(path)
    if not os.path.isdir(path):
        return _ROOT_FILE.fullmatch(name) is not None
    return _is_partition_name(name) and _holds_only_a_log(path)


def _is_partition_name(name: str) -> bool:
    partition = checkpoint_files.parse_directory_name(name.removesuffix(ADOPTING_SUFFIX))
    return partition is not None or _SET_ASIDE.fullmatch(name) is not None


def _holds_only_a_log(path: str) -> bool:
    """Whether all entries are log files. A crash may leave a partition directory empty."""
    with os.scandir(path) as entries:
        return all(
            not entry.is_dir() and _PARTITION_FILE.fullmatch(entry.name) for entry in entries
        )
