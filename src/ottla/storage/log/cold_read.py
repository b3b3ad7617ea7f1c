"""Look-ups that do not wait for the disk: they stop at the first bytes that are not in memory.

A log has no event loop and awaits nothing. Asked for what is warm only, it raises a ColdRead; the
caller has those bytes read in a thread and asks again. Between the two the log may have changed.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.seams.files import File

# So often a look-up may stop; then it waits for the disk. Memory is scarce if what was read is
# gone again so soon.
COLD_READS_MAX = 16
# Each time more is read than the time before: a look-up may have to see many batches.
_FIRST_BYTES = 64 << 10
_BYTES_MAX = 16 << 20


class ColdBytes(NamedTuple):
    """Bytes that are not in memory. Whoever has this holds their file open."""

    file: File
    position: int
    size: int

    def after(self, tries: int) -> "ColdBytes":
        """As much as is to be read if the look-up has stopped so often before."""
        size = max(self.size, min(_FIRST_BYTES << tries, _BYTES_MAX))
        return ColdBytes(self.file, self.position, size)

    def warm(self) -> None:
        """Reads them into memory, as far as the file goes. For a thread to call. OSError."""
        self.file.warm(self.position, self.size)


class ColdRead(Exception):
    """A look-up needs bytes that are not in memory. It changed nothing."""

    def __init__(self, needed: ColdBytes) -> None:
        super().__init__(f"{needed.file.path}: {needed.size} bytes at {needed.position} are cold")
        self.needed = needed


# Reads so many bytes of a file at a position; fewer only where the file ends.
ReadAt = Callable[[File, int, int], bytes | bytearray]


def read_waiting(file: File, position: int, size: int) -> bytes | bytearray:
    """Waits for the disk where it must."""
    return file.read_at(position, size)


def read_warm(file: File, position: int, size: int) -> bytes | bytearray:
    """Never waits for the disk. ColdRead."""
    found = file.read_warm(position, size)
    if found is None:
        raise ColdRead(ColdBytes(file, position, size))
    return found


def reader(*, warm_only: bool) -> ReadAt:
    return read_warm if warm_only else read_waiting
