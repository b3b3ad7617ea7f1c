"""Frames: on a connection each message is preceded by its length in four bytes. Does no I/O."""

import struct

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.primitives import Buffer, Part

_LENGTH = struct.Struct(">i")
LENGTH_BYTES = _LENGTH.size
_NOTHING = memoryview(b"")
# Smaller pieces of a frame are copied: a view costs more, and keeps its whole chunk alive.
_VIEWED_BYTES_MIN = 16 * 1024


class BadFrameSize(PeerError):
    """A frame length out of range: the connection must be closed."""

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST, f"a frame of {size} bytes; 0 to {size_max} are accepted"
        )
        self.size = size


class FrameReader:
    """Splits the bytes of a connection into frames, in whatever chunks they arrive.

    Feed a chunk, then take frames until there are none. A frame that lies completely in one chunk
    is a view of it, so the chunk must not change while the frame is in use. A frame that is split
    over chunks is joined when its last byte arrives. The reader holds at most the received bytes of
    one frame, and never allocates memory by an announced length.
    """

    def __init__(self, size_max: int) -> None:
        # Connections raise it after authentication.
        self.size_max = size_max
        self._chunk = _NOTHING
        self._position = 0
        # The length of a frame that is split over chunks, and its bytes so far.
        self._length = bytearray()
        self._pieces: list[memoryview | bytearray] = []
        self._held_bytes = 0

    def feed(self, chunk: Buffer) -> None:
        """Takes the next received chunk. All frames of the last one must have been taken."""
        if self._position < len(self._chunk):
            raise RuntimeError("the last chunk still has frames")
        self._chunk = memoryview(chunk)
        self._position = 0

    def next_frame(self) -> memoryview | None:
        """The next frame without its length, or None if more bytes are needed. BadFrameSize."""
        begin = self._position + _LENGTH.size
        if not self._length and begin <= len(self._chunk):
            end = begin + self._size(self._chunk, self._position)
            if end <= len(self._chunk):
                self._position = end
                return self._chunk[begin:end]
        return self._complete()

    def _complete(self) -> memoryview | None:
        """Begins a frame that is split over chunks, or continues one of an earlier chunk."""
        self._length += self._take(_LENGTH.size - len(self._length))
        if len(self._length) < _LENGTH.size:
            return None
        size = self._size(self._length, 0)
        self._hold(self._take(size - self._held_bytes))
        if self._held_bytes < size:
            return None
        frame = memoryview(b"".join(self._pieces))
        self._length, self._pieces, self._held_bytes = bytearray(), [], 0
        return frame

    def _take(self, size: int) -> memoryview:
        """Up to `size` bytes of the chunk; releases a chunk that is used up."""
        piece = self._chunk[self._position : self._position + size]
        self._position += len(piece)
        if self._position == len(self._chunk):
            self._chunk, self._position = _NOTHING, 0
        return piece

    def _hold(self, piece: memoryview) -> None:
        """Keeps a large piece as a view; copies small pieces together, to save memory."""
        self._held_bytes += len(piece)
        if len(piece) >= _VIEWED_BYTES_MIN:
            self._pieces.append(piece)
        elif self._pieces and isinstance(self._pieces[-1], bytearray):
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece))

    def _size(self, buffer: Buffer, position: int) -> int:
        size: int = _LENGTH.unpack_from(buffer, position)[0]
        if not 0 <= size <= self.size_max:
            raise BadFrameSize(size, self.size_max)
        return size


def frame(header: bytes, message: list[Part]) -> list[Part]:
    """The parts of a frame: length and header are prepended to the message's first part."""
    size = len(header) + sum(map(len, message))
    first = message[0]
    if not isinstance(first, bytes):
        raise TypeError("a message begins with bytes of its own")
    return [b"".join((_LENGTH.pack(size), header, first)), *message[1:]]
