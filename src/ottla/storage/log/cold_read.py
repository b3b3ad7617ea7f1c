"""Look-ups that do not wait for the disk: they stop at bytes that are not in the page cache.

A log awaits nothing. With `warm_only` it raises ColdRead instead of waiting; the caller has those
bytes read in a thread and repeats the look-up. The log may change in between.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.seams.files import File

# After so many stops a look-up waits for the disk: memory is scarce if pages are evicted so soon.
COLD_READS_MAX = 16
# Each read is larger than the one before: a look-up may need many batches.
_FIRST_BYTES = 64 << 10
_BYTES_MAX = 16 << 20


class ColdBytes(NamedTuple):
    """Bytes that are not in the page cache. The object keeps their file open."""

    file: File
    position: int
    size: int

    def after(self, tries: int) -> "ColdBytes":
        """The bytes to read after so many stops of the look-up."""
        size = max(self.size, min(_FIRST_BYTES << tries, _BYTES_MAX))
        return ColdBytes(self.file, self.position, size)

    def warm(self) -> None:
        """Reads the bytes into the page cache, up to the end of the file. For a thread. OSError."""
        self.file.warm(self.position, self.size)


class ColdRead(Exception):
    """A look-up needs bytes that are not in the page cache. It changed nothing."""

    def __init__(self, needed: ColdBytes) -> None:
        super().__init__(f"{needed.file.path}: {needed.size} bytes at {needed.position} are cold")
        self.needed = needed


# Reads (file, position, size); returns fewer bytes only at the end of the file.
ReadAt = Callable[[File, int, int], bytes | bytearray]


def read_waiting(file: File, position: int, size: int) -> bytes | bytearray:
    """Waits for the disk if necessary."""
    return file.read_at(position, size)


def read_warm(file: File, position: int, size: int) -> bytes | bytearray:
    """Never waits for the disk. ColdRead."""
    found = file.read_warm(position, size)
    if found is None:
        raise ColdRead(ColdBytes(file, position, size))
    return found


def reader(*, warm_only: bool) -> ReadAt:
    return read_warm if warm_only else read_waiting
