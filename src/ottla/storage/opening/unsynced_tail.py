"""Rewrites the unsynced tail of a log after a disk fault.

When an fsync fails, the kernel marks the pages that it could not write as clean. Reads still see
them, the next fsync succeeds without writing them, and a power loss loses them. So a log that met a
disk fault is marked and offline until it is opened again. Opening then rewrites all bytes beyond
the recovery point in place: the pages are dirty again, and the next fsync is reliable.

The mark need not be durable: after a reboot reads see only what the disk holds.
"""

import contextlib
from collections.abc import Iterable

from ottla.seams.files import Files, write_all
from ottla.storage.log.batch_scan import SCAN_WINDOW_BYTES
from ottla.storage.log.segment import Segment

MARK = "written-again-when-opened"


def mark_unsynced(files: Files, directory: str) -> None:
    """Marks the log in `directory` after a disk fault. A fault of this write is ignored."""
    with contextlib.suppress(OSError):
        files.create(_mark(directory)).close()


def is_marked_unsynced(files: Files, directory: str) -> bool:
    return files.exists(_mark(directory))


def rewrite_tail(segments: Iterable[Segment], recovery_point: int) -> None:
    """Rewrites and syncs the bytes of these segments beyond the recovery point. OSError.

    Bytes below it were synced before the fault. Index entries beyond it were dropped already.
    """
    for segment in segments:
        file = segment.file
        # A truncation may be unsynced, too.
        file.truncate(segment.size_bytes)
        first = segment.find(recovery_point)
        position = first.position if first else segment.size_bytes
        while position < segment.size_bytes:
            size = min(SCAN_WINDOW_BYTES, segment.size_bytes - position)
            write_all(file, position, [file.read_at(position, size)])
            position += size
        file.sync()


def remove_mark(files: Files, directory: str) -> None:
    """Removes the mark: the tail is durable."""
    files.remove(_mark(directory))


def _mark(directory: str) -> str:
    return f"{directory}/{MARK}"
