"""When the disk should begin with what was appended to a log. Decides; a log's owner acts.

Else dirty pages gather until the kernel makes an append, and so everybody, wait for the disk.
"""

from collections.abc import Callable
from contextlib import suppress

from ottla.seams.files import File
from ottla.storage.log.segment import Segment

# As much as this is appended before the disk is asked to begin with it.
WRITEBACK_BYTES = 8 << 20

# Takes a file, a position and a size; whether it sees to it now.
StartWriteback = Callable[[File, int, int], bool]


def _nobody(_file: File, _position: int, _size: int) -> bool:
    return True


class WritebackDue:
    """How far the disk was asked to write the active segment, and from which size on it is again.

    `start` is set by the log's owner.
    """

    __slots__ = ("_begun_bytes", "due_bytes", "start")

    def __init__(self, segment: Segment) -> None:
        self.start: StartWriteback = _nobody
        self.begin_at(segment.size_bytes)

    def begin_at(self, size_bytes: int) -> None:
        """Another segment is the active one, or it was cut: from here on it is counted."""
        self._begun_bytes = size_bytes
        self.due_bytes = size_bytes + WRITEBACK_BYTES

    def offer(self, segment: Segment) -> None:
        """Asks the owner; if that is busy, the next append asks again. It is a hint: none fails."""
        position, end = self._begun_bytes, segment.size_bytes
        with suppress(OSError):
            if self.start(segment.file, position, end - position):
                self.begin_at(end)
