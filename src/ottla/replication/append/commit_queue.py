"""The appends of one partition that wait for the high watermark, in the order of their offsets.

A move of the high watermark settles the appends that it passes, and touches no other.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from operator import attrgetter

from ottla.errors import PeerError

# Called once: with None if the append is committed, else with the reason why it will not be.
Settle = Callable[[PeerError | None], None]

_offset_of = attrgetter("committed_offset")


class CommitWaiter:
    """One append that waits. `settle` is None once it waits no longer."""

    __slots__ = ("committed_offset", "settle")

    def __init__(self, committed_offset: int, settle: Settle) -> None:
        self.committed_offset = committed_offset
        self.settle: Settle | None = settle


class CommitQueue:
    """Settles waiters in offset order; those of one offset in the order in which they came."""

    __slots__ = ("_abandoned", "waiters")

    def __init__(self) -> None:
        # Empty nearly always on a broker without followers, which is checked first.
        self.waiters: deque[CommitWaiter] = deque()
        # How many of them wait no longer.
        self._abandoned = 0

    def __len__(self) -> int:
        return len(self.waiters) - self._abandoned

    def wait(self, committed_offset: int, settle: Settle) -> CommitWaiter:
        """Has `settle` called when the high watermark reaches the offset, or never will.

        The caller checks first that it has not reached it yet.
        """
        waiter = CommitWaiter(committed_offset, settle)
        waiters = self.waiters
        if not waiters or waiters[-1].committed_offset <= committed_offset:
            waiters.append(waiter)
        else:
            # A repeated batch waits for the offset of its first append.
            waiters.insert(bisect_right(waiters, committed_offset, key=_offset_of), waiter)
        return waiter

    def leave(self, waiter: CommitWaiter) -> None:
        """The waiter is not settled. Nothing happens if it was settled already."""
        if waiter.settle is None:
            return
        waiter.settle = None
        self._abandoned += 1
        # A search for each of them would cost more, if a hundred requests time out together.
        if 2 * self._abandoned > len(self.waiters):
            self.waiters = deque(each for each in self.waiters if each.settle is not None)
            self._abandoned = 0

    def moved(self, high_watermark: int) -> None:
        """Settles those that the high watermark has reached."""
        while self.waiters and self.waiters[0].committed_offset <= high_watermark:
            waiter = self.waiters.popleft()
            settle, waiter.settle = waiter.settle, None
            if settle is None:
                self._abandoned -= 1
            else:
                settle(None)

    def fail(self, error: PeerError) -> None:
        """Settles all with this error: the high watermark will not reach them, or not soon.

        A waiter may wait again when it is settled.
        """
        settles = []
        for waiter in self.waiters:
            if waiter.settle is not None:
                settles.append(waiter.settle)
                waiter.settle = None
        self.waiters, self._abandoned = deque(), 0
        for settle in settles:
            settle(error)
