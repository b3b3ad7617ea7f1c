"""The entries of an index file, without the preallocated space after them."""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.errors import CorruptLog
from ottla.seams.files import File, Files
from ottla.storage.log.index import CHUNK_BYTES

ZEROS = bytes(CHUNK_BYTES)


class PlacedEntry(NamedTuple):
    """An entry's fields and its position in the file."""

    position: int
    fields: tuple[int, ...]


def read_entries(files: Files, path: str, entry: Struct) -> Iterator[PlacedEntry]:
    """All entries of the file; then CorruptLog if a partial entry follows.

    Kafka preallocates the indexes that it writes to. The preallocated zeros are not entries.
    """
    file = files.open(path, writable=False)
    try:
        end = _end_of_entries(file, entry.size)
        chunk_bytes = CHUNK_BYTES - CHUNK_BYTES % entry.size
        for start in range(0, end, chunk_bytes):
            chunk = file.read_at(start, min(chunk_bytes, end - start))
            whole = len(chunk) - len(chunk) % entry.size
            for index, fields in enumerate(entry.iter_unpack(chunk[:whole])):
                yield PlacedEntry(start + index * entry.size, fields)
            if whole < len(chunk):
                reason = f"{len(chunk) - whole} bytes are not a whole entry"
                raise CorruptLog(path, start + whole, reason)
    finally:
        file.close()


def _end_of_entries(file: File, entry_bytes: int) -> int:
    """The end of the last entry that is not all zeros."""
    end = file.size()
    while end > 0:
        start = max(0, end - CHUNK_BYTES)
        chunk = file.read_at(start, end - start)
        if chunk != ZEROS[: len(chunk)]:
            used = start + len(chunk.rstrip(b"\0"))
            return min(used + -used % entry_bytes, file.size())
        end = start
    return 0
