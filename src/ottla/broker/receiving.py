"""Where a connection's bytes are received, and the frames that they complete. Does no I/O.

All connections of a node share one scratch buffer: what arrives whole is handled where it lies, and
an idle connection holds no memory. Only a frame that is cut gets a buffer, of exactly its size,
into which the rest is then received without another copy.
"""

from collections.abc import Iterator
from struct import Struct

from ottla.protocol.framing import BadFrameSize

_LENGTH = Struct(">i")
SCRATCH_BYTES = 256 << 10


class FrameReceiver:
    """Ask for `room`, have it filled, take the `frames`.

    A frame is a view that is good until the next one is asked for, unless it was cut: then it is a
    buffer of its own.
    """

    __slots__ = ("_filled", "_frame", "_rest", "_scratch", "size_max")

    def __init__(self, scratch: memoryview, size_max: int) -> None:
        self.size_max = size_max
        self._scratch = scratch
        # The beginning of a frame whose length is not yet known.
        self._rest = b""
        # A frame that is cut, and how much of it is there.
        self._frame: memoryview | None = None
        self._filled = 0

    @property
    def held_bytes(self) -> int:
        """What was received of a frame that is not yet whole."""
        return self._filled if self._frame is not None else len(self._rest)

    def room(self) -> memoryview:
        if self._frame is not None:
            return self._frame[self._filled :]
        self._scratch[: len(self._rest)] = self._rest
        return self._scratch[len(self._rest) :]

    def frames(self, received: int) -> Iterator[memoryview]:
        """The frames that `received` bytes in the room complete. BadFrameSize ends a connection."""
        if self._frame is not None:
            self._filled += received
            if self._filled == len(self._frame):
                frame, self._frame, self._filled = self._frame, None, 0
                yield frame
            return
        end = len(self._rest) + received
        self._rest = b""
        position = 0
        while end - position >= _LENGTH.size:
            begin = position + _LENGTH.size
            size = self._size(position)
            if begin + size > end:
                self._cut(begin, end, size)
                return
            position = begin + size
            yield self._scratch[begin:position]
        self._rest = bytes(self._scratch[position:end])

    def _cut(self, begin: int, end: int, size: int) -> None:
        # Untouched pages of it cost nothing, so a length that is merely announced does not either.
        self._frame = memoryview(bytearray(size))
        self._filled = end - begin
        self._frame[: self._filled] = self._scratch[begin:end]

    def _size(self, position: int) -> int:
        size: int = _LENGTH.unpack_from(self._scratch, position)[0]
        if not 0 <= size <= self.size_max:
            raise BadFrameSize(size, self.size_max)
        return size
