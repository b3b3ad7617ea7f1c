"""How far the followers of a partition are, as its leader knows it. Does no I/O."""

from collections import deque
from typing import NamedTuple

from ottla.metadata.values import Incarnation

# A follower that lacks a record for this many ticks of its leader lags. A tick is
# `replica.lag.time.max.ms` divided by this.
LAG_TICKS = 4


class FollowerProgress(NamedTuple):
    """What a follower has, as of its last fetch in this leader epoch."""

    incarnation: Incarnation
    end_offset: int
    start_offset: int


class LagTicks:
    """The log end offsets of the leader's last ticks.

    The leader counts its own ticks. So an append costs nothing here, a follower has the whole time
    for the first record that it lacks, and a leader that was paused does not blame its followers.
    """

    __slots__ = ("_end_offsets",)

    def __init__(self) -> None:
        self._end_offsets: deque[int] = deque(maxlen=LAG_TICKS)

    def tick(self, end_offset: int) -> int:
        """Takes the log end offset. Returns the end that followers must have by now."""
        ends = self._end_offsets
        due = ends[0] if len(ends) == LAG_TICKS else -1
        ends.append(end_offset)
        return due

    def clear(self) -> None:
        self._end_offsets.clear()
