"""Dropping the offsets that groups committed for topics that were deleted since.

A shard acts on a deletion at once if it can. One that is loading, or cannot write, owes it: it is
tried again later. A shard that was loaded compares all its offsets with the metadata, since topics
may have been deleted while nobody led its partition.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ottla.coordinators.runtime.loading import SLICE_NS_MAX
from ottla.coordinators.runtime.shard import RETRY_MS
from ottla.errors import PeerError
from ottla.metadata.image import Image
from ottla.metadata.records import TopicDeleted
from ottla.metadata.store import Entry
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.seams.clock import Clock

if TYPE_CHECKING:
    from ottla.coordinators.group.coordinator import GroupShard, GroupShards
    from ottla.coordinators.group.decision import Decision

# How many deletions are kept for a shard that could not act on them. Only offsets that were
# committed without a topic id need them: those with an id are compared with the image.
OWED_DELETIONS_MAX = 1_000


class _Owed:
    """The deletions that a shard has to act on, and when it is tried next, on the steady clock."""

    __slots__ = ("deleted", "due_ms")

    def __init__(self) -> None:
        self.deleted: deque[TopicDeleted] = deque(maxlen=OWED_DELETIONS_MAX)
        self.due_ms = 0


class DeletedTopics:
    """`start` at a start and `follow` for each later entry; `run` does not end."""

    def __init__(self, shards: "GroupShards", clock: Clock) -> None:
        self._shards = shards
        self._clock = clock
        self._image = Image()
        self._deleted: deque[TopicDeleted] = deque()
        # The shards that may hold offsets of deleted topics: those that were loading when a topic
        # was deleted, have just been loaded, or could not write.
        self._owing: dict[GroupShard, _Owed] = {}
        self._is_due = asyncio.Event()
        shards.on_loaded(self._compare_later)

    def start(self, image: Image) -> None:
        self._image = image

    def follow(self, image: Image, entry: Entry) -> None:
        self._image = image
        for record in entry.records:
            # The offsets topic takes its shards along.
            if isinstance(record, TopicDeleted) and record.name != CONSUMER_OFFSETS:
                self._deleted.append(record)
                self._is_due.set()

    def owed(self, shard: "GroupShard") -> tuple[TopicDeleted, ...]:
        """The deletions that a shard could not act on yet."""
        owed = self._owing.get(shard)
        return () if owed is None else tuple(owed.deleted)

    async def run(self) -> None:
        """Drops offsets; after a millisecond of it others have their turn."""
        while True:
            self._is_due.clear()
            await self._drop_deleted()
            await self._drop_owed()
            await self._sleep(self._soonest_ms())

    async def _sleep(self, until_ms: int | None) -> None:
        """Until then, or until something is due sooner."""
        wait_s = None if until_ms is None else max(0.0, (until_ms - self._steady_ms()) / 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._is_due.wait()

    def _soonest_ms(self) -> int | None:
        due = (owed.due_ms for shard, owed in self._owing.items() if shard.is_loaded)
        return min(due, default=None)

    def _compare_later(self, shard: "GroupShard") -> None:
        self._owe(shard, self._steady_ms())
        self._is_due.set()

    def _owe(self, shard: "GroupShard", due_ms: int, *deleted: TopicDeleted) -> None:
        owed = self._owing.setdefault(shard, _Owed())
        owed.deleted.extend(deleted)
        owed.due_ms = due_ms

    async def _drop_deleted(self) -> None:
        """The offsets of topics that were just deleted."""
        while self._deleted:
            deleted = self._deleted.popleft()
            for shard in self._shards:
                if not await self._dropped(shard, deleted):
                    self._owe(shard, self._steady_ms() + RETRY_MS, deleted)

    async def _drop_owed(self) -> None:
        """The offsets that could not be dropped before, as far as they can be now."""
        for shard, owed in list(self._owing.items()):
            if shard.is_loaded and owed.due_ms <= self._steady_ms() and not shard.is_closed:
                if await self._settled(shard, owed):
                    del self._owing[shard]
                else:
                    owed.due_ms = self._steady_ms() + RETRY_MS
            if shard.is_closed:
                self._owing.pop(shard, None)

    async def _settled(self, shard: "GroupShard", owed: _Owed) -> bool:
        if not await self._compared(shard):
            return False
        while owed.deleted:
            if not await self._dropped(shard, owed.deleted[0]):
                return False
            owed.deleted.popleft()
        return True

    async def _dropped(self, shard: "GroupShard", deleted: TopicDeleted) -> bool:
        """Drops the offsets of a deleted topic; False if that cannot be done now."""
        return await self._drop_all(
            shard, lambda: shard.machine.topic_deleted(deleted.name, deleted.topic_id)
        )

    async def _compared(self, shard: "GroupShard") -> bool:
        """Drops all offsets that are of deleted topics by the image; False if that cannot be done
        now."""
        slice_ends_ns = self._clock.steady_ns() + SLICE_NS_MAX
        for group_id in list(shard.machine.offsets.groups):
            if self._clock.steady_ns() >= slice_ends_ns:
                await asyncio.sleep(0)
                slice_ends_ns = self._clock.steady_ns() + SLICE_NS_MAX
            decide = partial(shard.machine.topics_gone, group_id, self._is_gone)
            if not await self._drop_all(shard, decide):
                return False
        return True

    async def _drop_all(self, shard: "GroupShard", decide: "Callable[[], Decision]") -> bool:
        """Acts on what is decided until that is nothing; False if a shard cannot act now."""
        while not shard.is_closed:
            if not shard.is_loaded:
                return False
            decision = decide()
            if not decision.records:
                return True
            try:
                shard.apply(partial(_decided, decision))
            except PeerError:
                return False
            await asyncio.sleep(0)
        return True

    def _is_gone(self, topic: str, topic_id: Uuid) -> bool:
        """Whether a topic was deleted, as far as the image tells.

        The image is no older than any commit in the log: whoever led the partition before had to
        stop at an entry that this broker has applied. A topic that nobody has heard of is not
        taken for a deleted one: it may be adopted later.
        """
        image = self._image
        if topic_id == ZERO_UUID or image.topic_by_id(topic_id) is not None:
            return False
        return image.topic(topic) is not None or topic in image.deleted_names

    def _steady_ms(self) -> int:
        return self._clock.steady_ns() // 1_000_000


def _decided(decision: "Decision", _now_ms: int) -> "Decision":
    return decision
