"""The offsets that a shard waits for: once for each of its batches, in the order of the log."""

from collections import deque
from collections.abc import Callable
from functools import partial

from ottla.errors import PeerError
from ottla.replication.append.commit_queue import CommitWaiter
from ottla.replication.replica import Replica


class CommitWaits:
    """Calls `release` when the log is committed up to an offset that the shard waits for.

    An ISR that is too small ends no wait: the shard's decisions are in the log, and are committed
    when the ISR has grown. If the leader epoch ends, nothing is released any more.
    """

    __slots__ = ("_leader_epoch", "_release", "_replica", "_waiters")

    def __init__(self, replica: Replica, release: Callable[[], None]) -> None:
        self._replica = replica
        self._leader_epoch = replica.partition.leader_epoch
        self._release = release
        self._waiters: deque[CommitWaiter] = deque()

    def wait(self, end_offset: int) -> None:
        """Offsets never decrease from call to call."""
        waiters = self._waiters
        if end_offset > self._replica.high_watermark and (
            not waiters or waiters[-1].committed_offset < end_offset
        ):
            self._enter(end_offset)

    def leave(self) -> None:
        """Waits for nothing any more."""
        for waiter in self._waiters:
            self._replica.commits.leave(waiter)
        self._waiters.clear()

    def _enter(self, end_offset: int) -> None:
        settle = partial(self._settled, end_offset)
        self._waiters.append(self._replica.commits.wait(end_offset, settle))

    def _settled(self, end_offset: int, error: PeerError | None) -> None:
        if not self._waiters:
            return  # it has left while others were settled
        self._waiters.popleft()
        partition = self._replica.partition
        if error is None:
            self._release()
        elif partition.is_leader and partition.leader_epoch == self._leader_epoch:
            self._enter(end_offset)
