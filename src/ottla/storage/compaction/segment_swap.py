"""Replaces source segments by the output of a compaction, now or after a crash, as Kafka does.

A compaction writes its output as `.cleaned` files. Once they are synced they are renamed to
`.swap`, the last segment first, and these names are made durable. Then the source segments are
renamed away, and then the output gets its final names. Only flushed segments are compacted, so the
recovery point covers the gaps in the result. At a start:

- A `.cleaned` file belongs to an incomplete output. The `.swap` files at and behind the first of
  them belong to the same output. All of these are removed; the source segments are still there.
- Any other `.swap` file belongs to a complete output. Its source segments lie between the base
  offset of the first and the last offset of the last one. They are removed if they are still
  there, and the output gets its final names.

Every step can be interrupted and repeated.
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
    """A file of a segment: the base offset, and the name without `.cleaned` or `.swap`."""

    base_offset: int
    name: str


class OutputIsUseless(OttlaError):
    """The output of a compaction cannot replace its sources. The log is unchanged."""


def remove_incomplete(files: Files, directory: str) -> None:
    """Removes incomplete outputs. At a start they would undo a later output."""
    for each in _segment_files(files.list(directory), CLEANED):
        files.remove(f"{directory}/{each.name}{CLEANED}")


def swap_in(
    pool: FilePool, directory: str, sources: Sequence[Segment], end_offset: int, deleted: str
) -> list[str]:
    """Replaces these segments, the last of which ends at `end_offset`, by their output.

    Returns the paths of the sources, renamed with the suffix `deleted`, to be removed. Every step
    that must precede the next is durable; the last rename need not be.
    """
    files, base_offset = pool.files, sources[0].base_offset
    outputs = _segment_files(files.list(directory), CLEANED)
    if not any(each.name.endswith(LOG) for each in outputs) or any(
        each.base_offset != base_offset for each in outputs
    ):
        raise OutputIsUseless(f"{directory}: no output, or others beside that of {base_offset}")
    # An earlier snapshot may show a transaction as open whose marker is gone now.
    remove_snapshots_below(files, directory, end_offset)
    for each in outputs:
        files.rename(f"{directory}/{each.name}{CLEANED}", f"{directory}/{each.name}{SWAP}")
    files.sync_dir(directory)
    # Renamed, not replaced: freeing a large file would block the loop.
    left = [path for source in sources for path in source.mark_deleted(deleted)]
    if len(sources) > 1:
        files.sync_dir(directory)
    # The log first: after a crash an index without its log would count as an old index.
    for each in sorted(outputs, key=lambda each: not each.name.endswith(LOG)):
        files.rename(f"{directory}/{each.name}{SWAP}", f"{directory}/{each.name}")
    return left


def settle_compaction(files: Files, directory: str) -> int:
    """Completes or undoes an interrupted swap, durably. Returns the end offset of the output.

    CorruptLog if a complete output cannot be read. No segment was changed then.
    """
    names = files.list(directory)
    cleaned = _segment_files(names, CLEANED)
    swaps = _segment_files(names, SWAP)
    if cleaned:
        first = min(cleaned).base_offset
        undone = [each for each in swaps if each.base_offset >= first]
        # These first: without a `.cleaned` file beside them they would count as complete.
        _remove(files, directory, (each.name + SWAP for each in undone))
        _remove(files, directory, (each.name + CLEANED for each in cleaned))
        swaps = [each for each in swaps if each.base_offset < first]
    if not swaps:
        return 0
    end_offset = _replace(files, directory, names, swaps)
    later = [each.base_offset for each in _segment_files(names) if each.base_offset >= end_offset]
    # Compaction may have left a gap before the next segment.
    return min(later, default=end_offset)


def _replace(
    files: Files, directory: str, names: Iterable[str], swaps: Iterable[_SegmentFile]
) -> int:
    """Replaces the sources by a complete output. Returns its end offset."""
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
        # The logs have their final names already: only indexes are left.
        end_offset = 0
    for each in swaps:
        files.rename(f"{directory}/{each.name}{SWAP}", f"{directory}/{each.name}")
    files.sync_dir(directory)
    return end_offset


def _end_of(files: Files, directory: str, log: _SegmentFile) -> int:
    file = files.open(f"{directory}/{log.name}{SWAP}", writable=False)
    try:
        # Even an empty output replaces the segment with its base offset.
        end_offset = log.base_offset + 1
        offset_max = log.base_offset + OFFSET_DELTA_MAX
        walk = BatchWalk(file, 0, file.size(), SCAN_WINDOW_BYTES, offset_max=offset_max)
        for placed in walk:
            end_offset = placed.header.next_offset
    finally:
        file.close()
    return end_offset


def _remove(files: Files, directory: str, names: Iterable[str]) -> None:
    """Removes files, durably on return."""
    for name in names:
        files.remove(f"{directory}/{name}")
    files.sync_dir(directory)


def _segment_files(names: Iterable[str], under_way: str = "") -> list[_SegmentFile]:
    """The segment files among these names that have this suffix behind their own."""
    found = []
    for full_name in names:
        if full_name.endswith(under_way):
            name = full_name.removesuffix(under_way)
            stem, dot, kind = name.partition(".")
            if stem.isdecimal() and dot + kind in SUFFIXES:
                found.append(_SegmentFile(int(stem), name))
    return found
