"""Reads a segment in pieces of whole batches, for the cleaner, which reads all records."""

import itertools
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from ottla.errors import CorruptLog, PeerError
from ottla.native.batches import Batches, Left, find_batches
from ottla.native.keymap import ALL_GO
from ottla.native.scan import KeyColumns, key_columns
from ottla.protocol.batch import (
    HEADER_BYTES,
    BatchHeader,
    MarkerKind,
    plain_records,
    read_header,
    read_marker,
)
from ottla.protocol.compression import Codec
from ottla.seams.files import Buffer, File


class UnreadableRecords(Exception):
    """Records that cannot be parsed though the checksum of their batch is right.

    A client sent them so: the disk is not at fault.
    """


class Piece(NamedTuple):
    """Consecutive uncompressed batches, or one compressed batch."""

    path: str
    position: int
    content: Buffer
    batches: Batches

    @property
    def size_bytes(self) -> int:
        return len(self.content)

    @property
    def is_compressed(self) -> bool:
        return self.header(0).codec != Codec.NONE

    def header(self, index: int) -> BatchHeader:
        return read_header(self.content, self.batches.starts[index])

    def marker(self, index: int) -> MarkerKind | None:
        """The type of a transaction marker; None if the batch is not one."""
        header = self.header(index)
        if not header.is_control or header.count == 0:
            return None
        try:
            found = read_marker(self.content, self.batches.starts[index])
        except PeerError as error:
            raise self.corrupt(str(error)) from error
        return found.kind if found else None

    def unfolded(self, decompressed_bytes_max: int) -> "Piece":
        """The piece with decompressed records, unless all of them are dropped. Headers stay as they
        are. UnreadableRecords.
        """
        header = self.header(0)
        if header.codec == Codec.NONE or header.count == 0 or self.batches.verdicts[0] == ALL_GO:
            return self
        try:
            body = plain_records(self.content, decompressed_bytes_max=decompressed_bytes_max)
        except PeerError as error:
            raise UnreadableRecords(str(error)) from error
        content = b"".join((self.content[:HEADER_BYTES], body))
        batches = self.batches._replace(starts=array("q", (0, len(content))))
        return self._replace(content=content, batches=batches)

    def columns(self) -> KeyColumns:
        """The key columns of its records, which must be decompressed. UnreadableRecords."""
        try:
            return key_columns(self.content, self.batches.starts, self.batches.verdicts)
        except ValueError as error:
            raise UnreadableRecords(str(error)) from error

    def split(self) -> Iterator["Piece"]:
        """One piece per batch."""
        starts, verdicts, special, _ = self.batches
        for index, (start, end) in enumerate(itertools.pairwise(starts)):
            batches = Batches(
                array("q", (0, end - start)),
                verdicts[index : index + 1],
                [0] if index in special else [],
                self.header(index).next_offset,
            )
            yield Piece(self.path, self.position + start, self.content[start:end], batches)

    def as_it_is(self) -> Left:
        """The only batch of the piece, unchanged."""
        header = self.header(0)
        content = bytearray(self.content)
        return Left(content, [len(content)], [header.last_offset], [header.max_timestamp], 0, 0)

    def corrupt(self, reason: str) -> CorruptLog:
        return CorruptLog(self.path, self.position, reason)


def pieces(file: File, size_bytes: int, window_bytes: int, now_ms: int) -> Iterator[Piece]:
    """The first `size_bytes` of a segment, read in windows that hold at least one batch.

    CorruptLog at an impossible header or a wrong checksum.
    """
    position = next_offset = 0
    wanted_bytes = min(window_bytes, size_bytes)
    while position < size_bytes:
        window = memoryview(file.read_at(position, wanted_bytes))
        if len(window) < wanted_bytes:
            raise CorruptLog(file.path, position + len(window), "the file ends here")
        used_bytes = 0
        while found := _first_piece(file.path, position, window[used_bytes:], next_offset, now_ms):
            yield found
            next_offset = found.batches.next_offset
            used_bytes += found.size_bytes
            position += found.size_bytes
        wanted_bytes = min(window_bytes, size_bytes - position)
        if used_bytes == 0:
            wanted_bytes = _bytes_needed(file.path, position, window, size_bytes - position)


def _first_piece(
    path: str, position: int, content: memoryview, offset_min: int, now_ms: int
) -> Piece | None:
    """The first piece of a window; None if it holds no whole batch."""
    try:
        batches = find_batches(content, offset_min, now_ms)
    except ValueError as error:
        raise CorruptLog(path, position, str(error)) from error
    if not batches.verdicts:
        return None
    return Piece(path, position, content[: batches.starts[-1]], batches)


def _bytes_needed(path: str, position: int, window: memoryview, left_bytes: int) -> int:
    """The size of the batch at `position`, which is larger than the window."""
    needed_bytes = HEADER_BYTES if len(window) < HEADER_BYTES else read_header(window).size
    if needed_bytes > left_bytes:
        missing = needed_bytes - left_bytes
        raise CorruptLog(path, position, f"the last {missing} bytes of this batch are missing")
    return needed_bytes
