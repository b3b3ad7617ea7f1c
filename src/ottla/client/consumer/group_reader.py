"""Reads topics as a member of a group: from where the group stands, what this member is given."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ottla.client.admin.group_offsets import committed_offsets
from ottla.client.consumer.membership import MemberOptions, Membership
from ottla.client.reading.fetch import FetchLimits
from ottla.client.reading.partition_reader import Reader, Round
from ottla.client.routing.router import Router
from ottla.protocol.topic_partition import TopicPartition

# Where to begin in partitions of which the group has committed nothing.
Begin = Callable[[Sequence[TopicPartition]], Awaitable[dict[TopicPartition, int]]]
# A member that leaves does not wait long for an answer.
_LEAVE_S = 2.0


class GroupReader:
    """A member while it is entered. It is heard of only while `read` or `commit` is called.

    What was read and not committed is read again, here or elsewhere, after others came or went.
    """

    def __init__(
        self,
        router: Router,
        group_id: str,
        topics: Sequence[str],
        *,
        begin: Begin,
        limits: FetchLimits,
        options: MemberOptions | None = None,
    ) -> None:
        self._router = router
        self._begin = begin
        self._membership = Membership(router, group_id, topics, options or MemberOptions())
        self._reader = Reader(router, {}, limits)
        self._idle_s = limits.max_wait_ms / 1e3
        self._committed: dict[TopicPartition, int] = {}
        self._must_join = True
        self._heard_of_s = 0.0

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offsets of the next records of what this member owns; they may be changed."""
        return self._reader.positions

    async def __aenter__(self) -> "GroupReader":
        await self._join()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            async with asyncio.timeout(_LEAVE_S):
                await self._membership.leave()
        except TimeoutError:
            return

    async def read(self) -> Round:
        """The next records, if some come soon. After a change in the group other partitions'."""
        await self._stay()
        if not self.positions:
            await asyncio.sleep(self._idle_s)
            return Round({}, [], [])
        return await self._reader.read()

    async def commit(self) -> bool:
        """Commits the positions. False if the group has changed: they count for nothing then."""
        changed = {
            partition: position
            for partition, position in self.positions.items()
            if self._committed.get(partition) != position
        }
        if not changed:
            return True
        if not await self._membership.commit(changed):
            self._must_join = True
            return False
        self._committed |= changed
        return True

    async def _stay(self) -> None:
        now_s = asyncio.get_running_loop().time()
        interval_s = self._membership.options.heartbeat_interval_ms / 1e3
        if not self._must_join and now_s - self._heard_of_s >= interval_s:
            self._must_join = not await self._membership.is_current()
            self._heard_of_s = now_s
        if self._must_join:
            await self._join()

    async def _join(self) -> None:
        self._reader.positions = {}
        assigned = await self._membership.join()
        stored = await committed_offsets(self._router, self._membership.group_id)
        self._committed = {each: stored[each].offset for each in assigned if each in stored}
        fresh = [each for each in assigned if each not in stored]
        self._reader.positions = {**self._committed, **await self._begin(fresh)}
        self._must_join = False
        self._heard_of_s = asyncio.get_running_loop().time()
