"""Purgatory: parked fetches, which wait for bytes. Produces wait in `append.commit_queue`.

A request waits for several partitions at once. The first that satisfies it wakes it, or its
deadline does.
"""

import asyncio
from typing import Protocol


class Watcher(Protocol):
    """An object that is called when a partition changes."""

    def count(self, amount: int) -> None:
        """`amount` bytes became readable; 0 if the high watermark moved and no byte did."""
        ...

    def wake(self) -> None:
        """Something else changed: the watcher has to check again."""
        ...


class Waiter:
    """One parked request and its deadline.

    Call `expect` and then `wait`; changes in between count. Both may be repeated after a wake-up.
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
        """From now on `missing` units are missing."""
        self._missing = missing
        self._is_woken = False

    async def wait(self) -> None:
        """Waits until the missing units were counted, `wake` is called, or the deadline passes."""
        if not self.is_over and not self._is_woken:
            self._future = asyncio.get_running_loop().create_future()
            await self._future

    def count(self, amount: int) -> None:
        """`amount` of the missing units have come."""
        self._missing -= amount
        if self._missing <= 0:
            self.wake()

    def wake(self) -> None:
        """Ends the wait, whatever is missing."""
        self._is_woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def close(self) -> None:
        """Cancels the deadline's timer."""
        self._timer.cancel()

    def _expire(self) -> None:
        self.is_over = True
        self.wake()


class WaitingRoom:
    """The watchers of one partition, or of all partitions of a session."""

    __slots__ = ("watchers",)

    def __init__(self) -> None:
        # A dict, for its order: first come, first served. True for those that read stable bytes
        # only, as read_committed consumers do.
        self.watchers: dict[Watcher, bool] = {}

    def __len__(self) -> int:
        return len(self.watchers)

    def enter(self, watcher: Watcher, *, is_committed_only: bool = False) -> None:
        self.watchers[watcher] = is_committed_only

    def leave(self, watcher: Watcher) -> None:
        self.watchers.pop(watcher, None)

    def count(self, amount: int) -> None:
        """`amount` bytes became readable."""
        for watcher in self.watchers:
            watcher.count(amount)

    def count_unstable(self, amount: int) -> None:
        """`amount` bytes became readable that lie beyond the last stable offset."""
        for watcher, is_committed_only in self.watchers.items():
            watcher.count(0 if is_committed_only else amount)

    def wake_all(self) -> None:
        """Has all watchers check again, for a reason other than new bytes."""
        for watcher in self.watchers:
            watcher.wake()
