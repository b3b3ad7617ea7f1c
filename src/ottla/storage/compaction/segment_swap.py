"""A compaction's output takes the place of what it was made from: now, or after a crash.

A compaction writes its output as `.cleaned` files. Once all of it is synced it renames them to
`.swap`, the last segment first, and makes these names durable. Only then may what they were made
from go, and only after that do they take its place. It touches flushed segments only, so that a
recovery point vouches for the holes that it leaves. So at a start:

- A `.cleaned` file is an output that was not complete. The `.swap` files at and behind the first of
  them belong to the same output: all of these go, and what they were made from is still there.
- Any other `.swap` file is part of a complete output. What it was made from lies between the first
  offset of the first of them and the last offset of the last one. That goes, if it still is there,
  and the output takes its place.

Kafka goes by the same rule. Every step can be cut short and be done again.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.errors import OttlaError
from ottla.seams.files import Files
from ottla.storage.log.batch_scan import SCAN_WINDOW_BYTES, BatchWalk
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.retention import OFFSET_DELTA_MAX
from ottla.storage.log.segment import LOG, SUFFIXES, Segment
from ottla.storage.producers.snapshot_files import remove_snapshots_below

CLEANED = ".cleaned"
SWAP = ".swap"


class _SegmentFile(NamedTuple):
    """A file of a segment: where it begins, and what it is called but for what is under way."""

    base_offset: int
    name: str


class OutputIsUseless(OttlaError):
    """What a compaction made cannot be put into the log, which was not changed."""


def remove_incomplete(files: Files, directory: str) -> None:
    """Removes outputs that nobody will finish: beside a later one they would undo it."""
    for each in _segment_files(files.list(directory), CLEANED):
        files.remove(f"{directory}/{each.name}{CLEANED}")


def swap_in(
    pool: FilePool, directory: str, sources: Sequence[Segment], end_offset: int, deleted: str
) -> list[str]:
    """Puts the complete output of these segments, the last of which ends there, in their place.

    Returns what is left of them under names that end with `deleted`, to be removed. Made durable
    are the steps that must be before the next; the last of them is not yet, and need not be.
    """
    files, base_offset = pool.files, sources[0].base_offset
    outputs = _segment_files(files.list(directory), CLEANED)
    if not any(each.name.endswith(LOG) for each in outputs) or any(
        each.base_offset != base_offset for each in outputs
    ):
        raise OutputIsUseless(f"{directory}: no output, or others beside that of {base_offset}")
    # What a snapshot from before knows as open may have been closed by a marker that is gone now.
    remove_snapshots_below(files, directory, end_offset)
    for each in outputs:
        files.rename(f"{directory}/{each.name}{CLEANED}", f"{directory}/{each.name}{SWAP}")
    files.sync_dir(directory)
    # Renamed, not replaced: to free what a large file takes would keep the loop.
    left = [path for source in sources for path in source.mark_deleted(deleted)]
    if len(sources) > 1:
        files.sync_dir(directory)
    # The log first: after a crash an index in place before it would be taken for an old one.
    for each in sorted(outputs, key=lambda each: not each.name.endswith(LOG)):
        files.rename(f"{directory}/{each.name}{SWAP}", f"{directory}/{each.name}")
    return left


def settle_compaction(files: Files, directory: str) -> int:
    """Leaves whole segments alone, durably; up to which offset they were compacted just now.

    CorruptLog if an output that should be complete cannot be read: no segment was changed then.
    """
    names = files.list(directory)
    cleaned = _segment_files(names, CLEANED)
    swaps = _segment_files(names, SWAP)
    if cleaned:
        first = min(cleaned).base_offset
        undone = [each for each in swaps if each.base_offset >= first]
        # These first: without a `.cleaned` file beside them they would pass for complete.
        _remove(files, directory, (each.name + SWAP for each in undone))
        _remove(files, directory, (each.name + CLEANED for each in cleaned))
        swaps = [each for each in swaps if each.base_offset < first]
    if not swaps:
        return 0
    end_offset = _replace(files, directory, names, swaps)
    later = [each.base_offset for each in _segment_files(names) if each.base_offset >= end_offset]
    # What the next segment follows upon may have been compacted away as well.
    return min(later, default=end_offset)


def _replace(
    files: Files, directory: str, names: Iterable[str], swaps: Iterable[_SegmentFile]
) -> int:
    """Puts an output in the place of what it was made from; where it ends."""
    logs = [each for each in swaps if each.name.endswith(LOG)]
    if logs:
        first = min(logs).base_offset
        end_offset = max(_end_of(files, directory, each) for each in logs)
        _remove(
            files,
            directory,
            (each.name for each in _segment_files(names) if first <= each.base_offset < end_offset),
        )
    else:
        # The logs were renamed before: only indexes are left.
        end_offset = 0
    for each in swaps:
        files.rename(f"{directory}/{each.name}{SWAP}", f"{directory}/{each.name}")
    files.sync_dir(directory)
    return end_offset


def _end_of(files: Files, directory: str, log: _SegmentFile) -> int:
    file = files.open(f"{directory}/{log.name}{SWAP}", writable=False)
    try:
        # Even an empty one takes the place of the segment that began where it does.
        end_offset = log.base_offset + 1
        offset_max = log.base_offset + OFFSET_DELTA_MAX
        walk = BatchWalk(file, 0, file.size(), SCAN_WINDOW_BYTES, offset_max=offset_max)
        for placed in walk:
            end_offset = placed.header.next_offset
    finally:
        file.close()
    return end_offset


def _remove(files: Files, directory: str, names: Iterable[str]) -> None:
    """Removes these, durably before anything else happens."""
    for name in names:
        files.remove(f"{directory}/{name}")
    files.sync_dir(directory)


def _segment_files(names: Iterable[str], under_way: str = "") -> list[_SegmentFile]:
    """The files of segments among these names that have this suffix behind their own."""
    found = []
    for full_name in names:
        if full_name.endswith(under_way):
            name = full_name.removesuffix(under_way)
            stem, dot, kind = name.partition(".")
            if stem.isdecimal() and dot + kind in SUFFIXES:
                found.append(_SegmentFile(int(stem), name))
    return found
