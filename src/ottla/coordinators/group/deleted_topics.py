"""Removes the committed offsets of deleted topics.

A shard handles a deletion at once if it can. If it is loading or cannot write, the deletion stays
pending and is retried. After a load all offsets of the shard are compared with the image, because
topics may have been deleted while its partition had no leader.
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

# Only offsets that were committed without a topic id need the pending deletions: offsets with an id
# are compared with the image.
MAX_PENDING_DELETIONS_PER_SHARD = 1_000


class _Pending:
    """The pending deletions of a shard, and when they are retried, on the steady clock."""

    __slots__ = ("deleted", "due_ms")

    def __init__(self) -> None:
        self.deleted: deque[TopicDeleted] = deque(maxlen=MAX_PENDING_DELETIONS_PER_SHARD)
        self.due_ms = 0


class DeletedTopics:
    """Call `start` with the first image and `follow` for each later entry; `run` does not end."""

    def __init__(self, shards: "GroupShards", clock: Clock) -> None:
        self._shards = shards
        self._clock = clock
        self._image = Image()
        self._deleted: deque[TopicDeleted] = deque()
        # The shards that may hold offsets of deleted topics: they were loading when a topic was
        # deleted, have just been loaded, or could not write.
        self._pending: dict[GroupShard, _Pending] = {}
        self._is_due = asyncio.Event()
        shards.on_loaded(self._compare_later)

    def start(self, image: Image) -> None:
        self._image = image

    def follow(self, image: Image, entry: Entry) -> None:
        self._image = image
        for record in entry.records:
            # With the offsets topic all its shards are gone.
            if isinstance(record, TopicDeleted) and record.name != CONSUMER_OFFSETS:
                self._deleted.append(record)
                self._is_due.set()

    def pending(self, shard: "GroupShard") -> tuple[TopicDeleted, ...]:
        """The deletions that a shard has not handled yet."""
        pending = self._pending.get(shard)
        return () if pending is None else tuple(pending.deleted)

    async def run(self) -> None:
        """Removes offsets; other tasks run after each millisecond of it."""
        while True:
            self._is_due.clear()
            await self._handle_new()
            await self._handle_pending()
            await self._sleep(self._soonest_ms())

    async def _sleep(self, until_ms: int | None) -> None:
        """Sleeps until then, or until a deletion is due sooner."""
        wait_s = None if until_ms is None else max(0.0, (until_ms - self._steady_ms()) / 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._is_due.wait()

    def _soonest_ms(self) -> int | None:
        due = (pending.due_ms for shard, pending in self._pending.items() if shard.is_loaded)
        return min(due, default=None)

    def _compare_later(self, shard: "GroupShard") -> None:
        self._postpone(shard, self._steady_ms())
        self._is_due.set()

    def _postpone(self, shard: "GroupShard", due_ms: int, *deleted: TopicDeleted) -> None:
        pending = self._pending.setdefault(shard, _Pending())
        pending.deleted.extend(deleted)
        pending.due_ms = due_ms

    async def _handle_new(self) -> None:
        """Handles topics that were just deleted."""
        while self._deleted:
            deleted = self._deleted.popleft()
            for shard in self._shards:
                if not await self._remove_topic(shard, deleted):
                    self._postpone(shard, self._steady_ms() + RETRY_MS, deleted)

    async def _handle_pending(self) -> None:
        """Retries pending deletions of shards that can write now."""
        for shard, pending in list(self._pending.items()):
            if shard.is_loaded and pending.due_ms <= self._steady_ms() and not shard.is_closed:
                if await self._retry(shard, pending):
                    del self._pending[shard]
                else:
                    pending.due_ms = self._steady_ms() + RETRY_MS
            if shard.is_closed:
                self._pending.pop(shard, None)

    async def _retry(self, shard: "GroupShard", pending: _Pending) -> bool:
        if not await self._compare_with_image(shard):
            return False
        while pending.deleted:
            if not await self._remove_topic(shard, pending.deleted[0]):
                return False
            pending.deleted.popleft()
        return True

    async def _remove_topic(self, shard: "GroupShard", deleted: TopicDeleted) -> bool:
        """Removes the offsets of a deleted topic; False if the shard cannot do that now."""
        return await self._apply_until_done(
            shard, lambda: shard.machine.topic_deleted(deleted.name, deleted.topic_id)
        )

    async def _compare_with_image(self, shard: "GroupShard") -> bool:
        """Removes the offsets of all deleted topics; False if the shard cannot do that now."""
        slice_ends_ns = self._clock.steady_ns() + SLICE_NS_MAX
        for group_id in list(shard.machine.offsets.groups):
            if self._clock.steady_ns() >= slice_ends_ns:
                await asyncio.sleep(0)
                slice_ends_ns = self._clock.steady_ns() + SLICE_NS_MAX
            decide = partial(shard.machine.topics_deleted, group_id, self._is_deleted)
            if not await self._apply_until_done(shard, decide):
                return False
        return True

    async def _apply_until_done(
        self, shard: "GroupShard", decide: "Callable[[], Decision]"
    ) -> bool:
        """Applies decisions until one has no records; False if the shard cannot write now."""
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

    def _is_deleted(self, topic: str, topic_id: Uuid) -> bool:
        """Whether a topic was deleted, according to the image.

        The image is no older than any commit in the log: the previous leader of the partition
        stopped at an entry that this broker has applied. An unknown topic does not count as
        deleted: it may be adopted later.
        """
        image = self._image
        if topic_id == ZERO_UUID or image.topic_by_id(topic_id) is not None:
            return False
        return image.topic(topic) is not None or topic in image.deleted_names

    def _steady_ms(self) -> int:
        return self._clock.steady_ns() // 1_000_000


def _decided(decision: "Decision", _now_ms: int) -> "Decision":
    return decision
