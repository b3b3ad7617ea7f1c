"""Requests that wait: a fetch for enough bytes, a produce for the high watermark.

A request waits on several partitions at once and is woken by the first that satisfies it, or by its
deadline. Nothing here knows what it waits for beyond a number.
"""

import asyncio
from typing import Protocol


class Watcher(Protocol):
    """Who is told when a partition changes."""

    def count(self, amount: int) -> None:
        """So many bytes became readable."""
        ...

    def wake(self) -> None:
        """Something else changed: it has to look again."""
        ...


class Waiter:
    """One parked request, with the time that it has.

    It says what it expects, and then waits: whatever comes in between counts. It may do so again
    after it was woken: what it found was perhaps not enough.
    """

    __slots__ = ("_future", "_is_woken", "_missing", "_timer", "is_over")

    def __init__(self, wait_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self.is_over = wait_ms <= 0
        self._missing = 0
        self._is_woken = False
        self._future: asyncio.Future[None] | None = None
        self._timer = loop.call_later(max(wait_ms, 0) / 1000, self._expire)

    def expect(self, missing: int) -> None:
        """From now on so much is missing."""
        self._missing = missing
        self._is_woken = False

    async def wait(self) -> None:
        """Until what is missing was counted, or somebody wakes it, or its time is over."""
        if not self.is_over and not self._is_woken:
            self._future = asyncio.get_running_loop().create_future()
            await self._future

    def count(self, amount: int) -> None:
        """Part of what was missing is there."""
        self._missing -= amount
        if self._missing <= 0:
            self.wake()

    def wake(self) -> None:
        """Goes on, whatever is missing."""
        self._is_woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def close(self) -> None:
        """Nobody waits any more."""
        self._timer.cancel()

    def _expire(self) -> None:
        self.is_over = True
        self.wake()


class WaitingRoom:
    """Those who wait for one partition, or for any of a session's, to change."""

    __slots__ = ("watchers",)

    def __init__(self) -> None:
        # A dict for its order: first come, first served.
        self.watchers: dict[Watcher, None] = {}

    def __len__(self) -> int:
        return len(self.watchers)

    def enter(self, watcher: Watcher) -> None:
        self.watchers[watcher] = None

    def leave(self, watcher: Watcher) -> None:
        self.watchers.pop(watcher, None)

    def count(self, amount: int) -> None:
        """Something became readable: so many bytes."""
        for watcher in self.watchers:
            watcher.count(amount)

    def wake_all(self) -> None:
        """Whatever they wait for will not come here any more, or they have to look again."""
        for watcher in self.watchers:
            watcher.wake()
