"""Iterates over the batches of a segment, header by header."""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from ottla.errors import CorruptLog, PeerError
from ottla.protocol.batch import (
    CRC_START,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    Marker,
    read_header,
    read_marker,
)
from ottla.seams.files import File
from ottla.storage.log.cold_read import ReadAt, read_waiting

# A look-up reads about one index interval; a full scan reads larger pieces.
LOOKUP_WINDOW_BYTES = 8 << 10
SCAN_WINDOW_BYTES = 1 << 20
OFFSET_MAX = 2**63 - 1


class Placed(NamedTuple):
    """The header of a batch, and its position in the segment."""

    position: int
    header: BatchHeader


class BatchWalk:
    """Reads headers in turn, through a window, up to `end`.

    Iteration raises CorruptLog at an impossible header or at a batch that does not fit before
    `end`. `position` is then where the damage begins; after a complete walk it is `end`.
    """

    __slots__ = (
        "_end",
        "_file",
        "_offset_max",
        "_read",
        "_window",
        "_window_bytes",
        "_window_start",
        "position",
    )

    def __init__(
        self,
        file: File,
        position: int,
        end: int,
        window_bytes: int = LOOKUP_WINDOW_BYTES,
        *,
        offset_max: int = OFFSET_MAX,
        read: ReadAt = read_waiting,
    ) -> None:
        self.position = position
        self._offset_max = offset_max
        self._read = read
        self._file = file
        self._end = end
        self._window_bytes = window_bytes
        self._window: bytes | bytearray = b""
        self._window_start = 0

    @property
    def path(self) -> str:
        return self._file.path

    def __iter__(self) -> Iterator[Placed]:
        next_offset = -1
        while self.position < self._end:
            header = self._header()
            if header.base_offset < next_offset:
                raise self._broken(f"offset {header.base_offset} comes after {next_offset - 1}")
            if header.last_offset > self._offset_max:
                raise self._broken(
                    f"offset {header.last_offset} is out of the range of this segment"
                )
            next_offset = header.next_offset
            yield Placed(self.position, header)
            self.position += header.size

    def crc_is_valid(self, placed: Placed) -> bool:
        """Whether the checksum of the current batch is right. Uses bounded memory."""
        position = placed.position + CRC_START
        end = placed.position + placed.header.size
        checksum = 0
        while position < end:
            size = min(end - position, SCAN_WINDOW_BYTES)
            checksum = crc32c(self._bytes(position, size), checksum)
            position += size
        return checksum == placed.header.crc

    def marker(self, placed: Placed) -> Marker | None:
        """The transaction marker of the current batch, if it is one. CorruptLog if garbled."""
        if not placed.header.is_control or placed.header.count == 0:
            return None
        try:
            return read_marker(self.batch(placed))
        except PeerError as error:
            raise CorruptLog(self.path, placed.position, str(error)) from error

    def batch(self, placed: Placed) -> bytes:
        """The whole current batch, header included."""
        return bytes(self._bytes(placed.position, placed.header.size))

    def _header(self) -> BatchHeader:
        if self._end - self.position < HEADER_BYTES:
            raise self._broken(f"{self._end - self.position} bytes are no whole header")
        header = read_header(self._bytes(self.position, HEADER_BYTES))
        if header.magic != MAGIC:
            raise self._broken(f"magic {header.magic} where a batch should begin")
        if header.size < HEADER_BYTES or header.last_offset_delta < 0 or header.base_offset < 0:
            raise self._broken("an impossible header")
        if self.position + header.size > self._end:
            missing = self.position + header.size - self._end
            raise self._broken(f"the last {missing} bytes of this batch are missing")
        return header

    def _bytes(self, position: int, size: int) -> memoryview:
        start = position - self._window_start
        if start < 0 or start + size > len(self._window):
            wanted = max(size, min(self._window_bytes, self._end - position))
            self._window = self._read(self._file, position, wanted)
            self._window_start, start = position, 0
            if len(self._window) < size:
                raise self._broken("the file ends here")
        return memoryview(self._window)[start : start + size]

    def _broken(self, reason: str) -> CorruptLog:
        return CorruptLog(self._file.path, self.position, reason)
