"""Where a connection's bytes are received, and the frames that they complete. Does no I/O.

All connections of a node share one scratch buffer: what arrives whole is handled where it lies, and
an idle connection holds no memory. Only a frame that is cut gets a buffer, into which the rest is
then received. A length is only a claim: the buffer is never much larger than what came of a frame.
"""

from collections.abc import Iterator
from struct import Struct

from ottla.protocol.framing import BadFrameSize

_LENGTH = Struct(">i")
SCRATCH_BYTES = 256 << 10
# A cut frame gets room for so many times what came of it: a MiB mostly gets all of its at once.
AHEAD = 4
AHEAD_BYTES_MIN = 4 << 10


class FrameReceiver:
    """Ask for `room`, have it filled, take what is `whole` or, if it is not, the `frames`.

    A frame is a view that is good until the next one is asked for, unless it was cut: then it is a
    buffer of its own.
    """

    __slots__ = ("_filled", "_frame", "_rest", "_scratch", "_size", "held_bytes", "size_max")

    def __init__(self, scratch: memoryview, size_max: int) -> None:
        self.size_max = size_max
        self._scratch = scratch
        # The beginning of a frame whose length is not yet known.
        self._rest = b""
        # A frame that is cut: as much room as it has by now, how much is there, how much comes.
        self._frame: memoryview | None = None
        self._filled = 0
        self._size = 0
        # The memory that a frame takes which is not yet whole.
        self.held_bytes = 0

    @property
    def received_bytes(self) -> int:
        """What came of that frame."""
        return self._filled if self._frame is not None else len(self._rest)

    def room(self) -> memoryview:
        if not self.held_bytes:
            return self._scratch
        if self._frame is not None:
            return self._frame[self._filled :]
        self._scratch[: len(self._rest)] = self._rest
        return self._scratch[len(self._rest) :]

    def whole(self, received: int) -> memoryview | None:
        """What nearly every read brings: one frame, and nothing else. If not, ask for `frames`."""
        if not self.held_bytes and received >= _LENGTH.size:
            size = received - _LENGTH.size
            if _LENGTH.unpack_from(self._scratch)[0] == size <= self.size_max:
                return self._scratch[_LENGTH.size : received]
        return None

    def frames(self, received: int) -> Iterator[memoryview]:
        """The frames that `received` bytes in the room complete. BadFrameSize ends a connection."""
        if self._frame is not None:
            self._filled += received
            if self._filled == self._size:
                frame, self._frame, self._filled = self._frame, None, 0
                self.held_bytes = 0
                yield frame
            elif self._filled == len(self._frame):
                self._hold(self._frame)
            return
        end = len(self._rest) + received
        self._rest = b""
        self.held_bytes = 0
        position = 0
        while end - position >= _LENGTH.size:
            begin = position + _LENGTH.size
            size = self._size_at(position)
            if begin + size > end:
                self._size, self._filled = size, end - begin
                self._hold(self._scratch[begin:end])
                return
            position = begin + size
            yield self._scratch[begin:position]
        self._rest = bytes(self._scratch[position:end])
        self.held_bytes = len(self._rest)

    def drop(self) -> None:
        """Nothing more comes: what came of a frame is of no use, and its memory is needed."""
        self._frame, self._rest = None, b""
        self._filled = self.held_bytes = 0

    def _hold(self, received: memoryview) -> None:
        """Keeps what came of a frame, with room for some of the rest: for all of it at most."""
        room_bytes = min(self._size, max(AHEAD * self._filled, AHEAD_BYTES_MIN))
        # Zeroed, and so paid for: Python has no memory that is merely promised.
        self._frame = memoryview(bytearray(room_bytes))
        self._frame[: self._filled] = received
        self.held_bytes = room_bytes

    def _size_at(self, position: int) -> int:
        size: int = _LENGTH.unpack_from(self._scratch, position)[0]
        if not 0 <= size <= self.size_max:
            raise BadFrameSize(size, self.size_max)
        return size
