"""Reads the assigned partitions of a group member, from the group's committed offsets."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ottla.client.admin.group_offsets import committed_offsets
from ottla.client.consumer.membership import MemberOptions, Membership
from ottla.client.reading.fetch import FetchLimits
from ottla.client.reading.partition_reader import FetchedRecords, PartitionReader
from ottla.client.routing.router import Router
from ottla.protocol.topic_partition import TopicPartition

# Returns the start offsets of partitions without a committed offset.
StartOffsets = Callable[[Sequence[TopicPartition]], Awaitable[dict[TopicPartition, int]]]
# The timeout of LeaveGroup.
_LEAVE_S = 2.0


class GroupReader:
    """A member of a group while entered. Only `read` and `commit` keep its session alive.

    After a rebalance, records without a commit are read again, by this or another member.
    """

    def __init__(
        self,
        router: Router,
        group_id: str,
        topics: Sequence[str],
        *,
        start_offsets: StartOffsets,
        limits: FetchLimits,
        options: MemberOptions | None = None,
    ) -> None:
        self._router = router
        self._start_offsets = start_offsets
        self._membership = Membership(router, group_id, topics, options or MemberOptions())
        self._reader = PartitionReader(router, {}, limits)
        self._idle_s = limits.max_wait_ms / 1e3
        self._committed: dict[TopicPartition, int] = {}
        self._must_join = True
        self._last_heartbeat_s = 0.0

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offsets of the next records per assigned partition. The caller may change them."""
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

    async def read(self) -> FetchedRecords:
        """The next records. The assigned partitions change after a rebalance."""
        await self._keep_membership()
        if not self.positions:
            await asyncio.sleep(self._idle_s)
            return FetchedRecords({}, [], [])
        return await self._reader.read()

    async def commit(self) -> bool:
        """Commits the positions. False, without effect, if the generation is over."""
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

    async def _keep_membership(self) -> None:
        now_s = asyncio.get_running_loop().time()
        interval_s = self._membership.options.heartbeat_interval_ms / 1e3
        if not self._must_join and now_s - self._last_heartbeat_s >= interval_s:
            self._must_join = not await self._membership.heartbeat()
            self._last_heartbeat_s = now_s
        if self._must_join:
            await self._join()

    async def _join(self) -> None:
        self._reader.positions = {}
        assigned = await self._membership.join()
        stored = await committed_offsets(self._router, self._membership.group_id)
        self._committed = {each: stored[each].offset for each in assigned if each in stored}
        fresh = [each for each in assigned if each not in stored]
        self._reader.positions = {**self._committed, **await self._start_offsets(fresh)}
        self._must_join = False
        self._last_heartbeat_s = asyncio.get_running_loop().time()
