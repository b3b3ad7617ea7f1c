"""The positions of the recent batches of the active segment, in memory.

Fetches of consumers that keep up find their batch here without a system call. The sparse index
would cost a look-up and a scan.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple


class Found(NamedTuple):
    """The position and size of a batch in its segment."""

    position: int
    size: int


class Tail:
    """Last offset and position of up to `batches_max` batches. Beyond that, the older half goes."""

    __slots__ = ("_batches_max", "_end_position", "_last_offsets", "_positions", "start_offset")

    def __init__(self, batches_max: int, start_offset: int) -> None:
        self._batches_max = batches_max
        self._last_offsets = array("q")
        self._positions = array("q")
        self._end_position = 0
        self.start_offset = start_offset

    def __len__(self) -> int:
        return len(self._last_offsets)

    def add(self, last_offset: int, position: int, size: int) -> None:
        self._last_offsets.append(last_offset)
        self._positions.append(position)
        self._end_position = position + size
        if len(self._last_offsets) > self._batches_max:
            self._forget_old()

    def add_all(
        self, last_offsets: Iterable[int], positions: Iterable[int], end_position: int
    ) -> None:
        """Adds batches that follow each other up to `end_position`."""
        self._last_offsets.extend(last_offsets)
        self._positions.extend(positions)
        self._end_position = end_position
        if len(self._last_offsets) > self._batches_max:
            self._forget_old()

    def _forget_old(self) -> None:
        dropped = len(self._last_offsets) // 2
        self.start_offset = self._last_offsets[dropped - 1] + 1
        del self._last_offsets[:dropped], self._positions[:dropped]

    def find(self, offset: int) -> Found | None:
        """The first batch that ends at or beyond `offset`; None if it is not in memory."""
        if offset < self.start_offset:
            return None
        index = bisect_left(self._last_offsets, offset)
        if index == len(self._last_offsets):
            return None
        position = self._positions[index]
        if index + 1 < len(self._positions):
            return Found(position, self._positions[index + 1] - position)
        return Found(position, self._end_position - position)

    def offset_behind(self, position: int) -> int | None:
        """The offset behind the last batch before `position`; None if it is not in memory."""
        index = bisect_left(self._positions, position)
        return self._last_offsets[index - 1] + 1 if index else None

    def bytes_between(self, start_offset: int, end_offset: int) -> int | None:
        """The size of the batches in between; None if not all of them are in memory."""
        if start_offset < self.start_offset or not self._last_offsets:
            return None
        return self._position_of(end_offset) - self._position_of(start_offset)

    def _position_of(self, offset: int) -> int:
        """Where the batch with this offset, or the next one, begins or will begin."""
        index = bisect_left(self._last_offsets, offset)
        return self._positions[index] if index < len(self._positions) else self._end_position

    def clear(self, start_offset: int) -> None:
        """Removes all batches. The next one begins at `start_offset`."""
        self.start_offset = start_offset
        del self._last_offsets[:], self._positions[:]
