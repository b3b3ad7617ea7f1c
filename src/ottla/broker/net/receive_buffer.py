"""The receive buffer of a connection, and the frames in it. Does no I/O.

All connections of a node share one scratch buffer. Complete frames are handled in place, and idle
connections use no memory. Only an incomplete frame gets its own buffer, which then receives the
rest. The length field is only a claim: the buffer grows with the bytes that have arrived.
"""

from collections.abc import Iterator
from struct import Struct

from ottla.protocol.framing import BadFrameSize

_LENGTH = Struct(">i")
SCRATCH_BYTES = 256 << 10
# The buffer of an incomplete frame has this many times the size of the bytes that have arrived. A
# frame of 1 MiB usually gets its whole buffer at once.
AHEAD = 4
AHEAD_BYTES_MIN = 4 << 10


class FrameReceiver:
    """Receive bytes into `room`, then take the one `whole` frame or, if it is None, the `frames`.

    A frame is a view that is valid until the next call, unless it arrived in pieces: then it has a
    buffer of its own.
    """

    __slots__ = ("_filled", "_frame", "_rest", "_scratch", "_size", "held_bytes", "size_max")

    def __init__(self, scratch: memoryview, size_max: int) -> None:
        self.size_max = size_max
        self._scratch = scratch
        # The first bytes of a frame whose length field is incomplete.
        self._rest = b""
        # An incomplete frame: its buffer so far, the bytes that have arrived, its final size.
        self._frame: memoryview | None = None
        self._filled = 0
        self._size = 0
        # The memory of the incomplete frame.
        self.held_bytes = 0

    @property
    def received_bytes(self) -> int:
        """The bytes that have arrived of the incomplete frame."""
        return self._filled if self._frame is not None else len(self._rest)

    def room(self) -> memoryview:
        """The buffer to receive into."""
        if not self.held_bytes:
            return self._scratch
        if self._frame is not None:
            return self._frame[self._filled :]
        self._scratch[: len(self._rest)] = self._rest
        return self._scratch[len(self._rest) :]

    def whole(self, received: int) -> memoryview | None:
        """The common case: exactly one complete frame. None otherwise; then use `frames`."""
        if not self.held_bytes and received >= _LENGTH.size:
            size = received - _LENGTH.size
            if _LENGTH.unpack_from(self._scratch)[0] == size <= self.size_max:
                return self._scratch[_LENGTH.size : received]
        return None

    def frames(self, received: int) -> Iterator[memoryview]:
        """The frames that the `received` bytes complete. BadFrameSize ends the connection."""
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
        """Frees the memory of the incomplete frame."""
        self._frame, self._rest = None, b""
        self._filled = self.held_bytes = 0

    def _hold(self, received: memoryview) -> None:
        """Copies an incomplete frame to a buffer with room for some or all of the rest."""
        room_bytes = min(self._size, max(AHEAD * self._filled, AHEAD_BYTES_MIN))
        # `bytearray` zeroes the memory, so a large buffer costs real pages.
        self._frame = memoryview(bytearray(room_bytes))
        self._frame[: self._filled] = received
        self.held_bytes = room_bytes

    def _size_at(self, position: int) -> int:
        size: int = _LENGTH.unpack_from(self._scratch, position)[0]
        if not 0 <= size <= self.size_max:
            raise BadFrameSize(size, self.size_max)
        return size
