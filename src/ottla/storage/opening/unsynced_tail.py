"""After a disk's fault: what reads see of a log may not be what the disk holds.

When a sync fails the kernel takes the pages that it could not write for clean. Reads still see
them, the next sync succeeds and saves nothing, and a power loss takes what was believed to be safe.
A log that met a fault is offline until it is opened anew. Whoever opens it finds a mark, and writes
what lies beyond the recovery point once more, over itself: that makes it dirty again, and the sync
that follows tells the truth about it.

The mark need not be durable. After a reboot reads see what the disk holds, and nothing else.
"""

import contextlib
from collections.abc import Iterable

from ottla.seams.files import Files, write_all
from ottla.storage.log.batch_scan import SCAN_WINDOW_BYTES
from ottla.storage.log.segment import Segment

MARK = "written-again-when-opened"


def mark_distrusted(files: Files, directory: str) -> None:
    """The log here met a fault. If the disk takes no mark either, there is nobody left to tell."""
    with contextlib.suppress(OSError):
        files.create(_mark(directory)).close()


def is_distrusted(files: Files, directory: str) -> bool:
    return files.exists(_mark(directory))


def write_again(segments: Iterable[Segment], recovery_point: int) -> None:
    """Makes durable what these segments hold beyond the recovery point. OSError if it cannot be.

    What lies below was synced before the fault. Of the indexes nothing beyond it was kept.
    """
    for segment in segments:
        file = segment.file
        # A cut may be among what was not saved.
        file.truncate(segment.size_bytes)
        first = segment.find(recovery_point)
        position = first.position if first else segment.size_bytes
        while position < segment.size_bytes:
            size = min(SCAN_WINDOW_BYTES, segment.size_bytes - position)
            write_all(file, position, [file.read_at(position, size)])
            position += size
        file.sync()


def trust_again(files: Files, directory: str) -> None:
    """What was distrusted is durable now."""
    files.remove(_mark(directory))


def _mark(directory: str) -> str:
    return f"{directory}/{MARK}"
