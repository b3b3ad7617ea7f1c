"""Decides when the kernel should start to write appended data to the disk. Does no I/O.

Without this, dirty pages gather until the kernel blocks an append, and with it the loop.
"""

from collections.abc import Callable
from contextlib import suppress

from ottla.seams.files import File
from ottla.storage.log.segment import Segment

# Writeback is started after so many appended bytes.
WRITEBACK_BYTES = 8 << 20

# Starts the writeback of (file, position, size); False if it is busy.
StartWriteback = Callable[[File, int, int], bool]


def _no_writeback(_file: File, _position: int, _size: int) -> bool:
    return True


class WritebackDue:
    """The end of the last writeback of the active segment, and the size at which the next is due.

    The owner of the log sets `start`.
    """

    __slots__ = ("_begun_bytes", "due_bytes", "start")

    def __init__(self, segment: Segment) -> None:
        self.start: StartWriteback = _no_writeback
        self.begin_at(segment.size_bytes)

    def begin_at(self, size_bytes: int) -> None:
        """Counts from this size on: after a roll, a truncation, or a started writeback."""
        self._begun_bytes = size_bytes
        self.due_bytes = size_bytes + WRITEBACK_BYTES

    def offer(self, segment: Segment) -> None:
        """Starts writeback. If it is busy, the next append tries again. Errors are ignored."""
        position, end = self._begun_bytes, segment.size_bytes
        with suppress(OSError):
            if self.start(segment.file, position, end - position):
                self.begin_at(end)
