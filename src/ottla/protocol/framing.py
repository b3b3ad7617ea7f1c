"""Frames: on a connection each message follows its length, in four bytes. Does no I/O."""

import struct

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.primitives import Buffer, Part

_LENGTH = struct.Struct(">i")
_NOTHING = memoryview(b"")


class BadFrameSize(PeerError):
    """A length that no frame here has: the connection cannot go on."""

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST, f"a frame of {size} bytes; 0 to {size_max} are taken"
        )
        self.size = size


class FrameReader:
    """Cuts the bytes of a connection into frames, however they arrive.

    Feed a chunk, then take frames until there are none. A frame that lies whole in a chunk is a
    view of it, and so lives as long as the chunk stays unchanged; only what is cut is copied. At
    most what was received of one frame is held, never what a length merely announces.
    """

    def __init__(self, size_max: int) -> None:
        # A connection raises it once its client is authenticated.
        self.size_max = size_max
        self._chunk = _NOTHING
        self._position = 0
        self._cut = bytearray()

    def feed(self, chunk: Buffer) -> None:
        """Takes what was received next. The frames before it must have been taken out."""
        if self._position < len(self._chunk):
            raise RuntimeError("the last chunk still has frames")
        self._chunk = memoryview(chunk)
        self._position = 0

    def next_frame(self) -> memoryview | None:
        """The next frame without its length, or None when more has to be fed. BadFrameSize."""
        if self._cut:
            return self._complete()
        begin = self._position + _LENGTH.size
        if begin <= len(self._chunk):
            end = begin + self._size(self._chunk, self._position)
            if end <= len(self._chunk):
                self._position = end
                return self._chunk[begin:end]
        self._take(len(self._chunk))
        return None

    def _complete(self) -> memoryview | None:
        """Goes on with a frame that an earlier chunk began."""
        self._take(_LENGTH.size - len(self._cut))
        if len(self._cut) < _LENGTH.size:
            return None
        end = _LENGTH.size + self._size(self._cut, 0)
        self._take(end - len(self._cut))
        if len(self._cut) < end:
            return None
        frame, self._cut = memoryview(self._cut), bytearray()
        return frame[_LENGTH.size :]

    def _take(self, size: int) -> None:
        """Copies up to `size` bytes of the chunk, and lets go of a chunk that has no more."""
        if size > 0:
            self._cut += self._chunk[self._position : self._position + size]
            self._position += size
        if self._position >= len(self._chunk):
            self._chunk, self._position = _NOTHING, 0

    def _size(self, buffer: Buffer, position: int) -> int:
        size: int = _LENGTH.unpack_from(buffer, position)[0]
        if not 0 <= size <= self.size_max:
            raise BadFrameSize(size, self.size_max)
        return size


def frame(header: bytes, message: list[Part]) -> list[Part]:
    """A message as it is sent: the length and the header join its first part."""
    size = len(header) + sum(map(len, message))
    first = message[0]
    if not isinstance(first, bytes):
        raise TypeError("a message begins with bytes of its own")
    return [b"".join((_LENGTH.pack(size), header, first)), *message[1:]]
