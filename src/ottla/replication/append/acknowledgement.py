"""Waits for appends to be committed, for `acks=all` and for transaction markers.

A request waits in the commit queue of each of its partitions, with one deadline for all of them.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError
from ottla.replication.append.appender import AppendResult
from ottla.replication.append.commit_queue import CommitQueue, CommitWaiter
from ottla.replication.replica import Replica


class Unacknowledged(NamedTuple):
    """An append that may not be committed yet, and its partition."""

    replica: Replica
    appended: AppendResult


def is_committed(append: Unacknowledged) -> bool:
    """Whether the high watermark has passed the append. PeerError if leadership was lost."""
    replica, appended = append
    partition = replica.partition
    partition.check_leadership()
    if partition.leader_epoch != appended.leader_epoch:
        raise PeerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leader came in between")
    if partition.high_watermark >= appended.committed_offset:
        return True
    error = replica.why_not_committed()
    if error is not None:
        raise error
    return False


class CommitWait:
    """Waits for the appends of one request, or for one append of several requests.

    `future` is done when each append is committed, refused or overdue. Then `errors` has None for
    each append that is committed. `sharing` is the number of requests that wait.
    """

    __slots__ = ("_left", "_timer", "_waiters", "errors", "future", "sharing")

    def __init__(self, appends: Sequence[Unacknowledged], wait_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self.errors: list[PeerError | None] = [None] * len(appends)
        self.future: asyncio.Future[None] = loop.create_future()
        self.sharing = 1
        self._waiters: list[tuple[int, CommitQueue, CommitWaiter]] = []
        self._timer: asyncio.TimerHandle | None = None
        for number, append in enumerate(appends):
            try:
                if not is_committed(append):
                    queue, settle = append.replica.commits, partial(self._settle, number)
                    waiter = queue.wait(append.appended.committed_offset, settle)
                    self._waiters.append((number, queue, waiter))
            except PeerError as error:
                # The traceback would keep this object alive until the next garbage collection.
                self.errors[number] = error.with_traceback(None)
        self._left = len(self._waiters)
        if not self._left:
            self.future.set_result(None)
        elif wait_ms <= 0:
            self._expire(wait_ms)
        else:
            self._timer = loop.call_later(wait_ms / 1000, self._expire, wait_ms)

    def cancel(self) -> None:
        """One of the requests waits no longer. The last of them ends the wait."""
        self.sharing -= 1
        if self.sharing == 0:
            self._leave()

    def _settle(self, number: int, error: PeerError | None) -> None:
        self.errors[number] = error
        self._left -= 1
        if self._left == 0:
            self._leave()
            self._done()

    def _expire(self, wait_ms: int) -> None:
        overdue = PeerError(ErrorCode.REQUEST_TIMED_OUT, f"not committed in {wait_ms} ms")
        for number, _, waiter in self._waiters:
            if waiter.settle is not None:
                self.errors[number] = overdue
        self._leave()
        self._done()

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _, queue, waiter in self._waiters:
            queue.leave(waiter)
        self._waiters.clear()

    def _done(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


async def until_committed(
    appends: Sequence[Unacknowledged], wait_ms: int
) -> list[PeerError | None]:
    """Waits up to `wait_ms`. The result of an append is None if it is committed, else its error."""
    wait = CommitWait(appends, wait_ms)
    try:
        await wait.future
    finally:
        wait.cancel()
    return wait.errors
