"""The shards of this broker: one for each partition of the coordinator's topic that it leads.

They follow what the metadata log says: a partition that this broker begins to lead is loaded, one
that it leads no more is let go of. One task does what their timers say.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ottla.coordinators.runtime.decision import Decision
from ottla.coordinators.runtime.loading import SLICE_NS_MAX, Loader
from ottla.coordinators.runtime.shard import RETRY_MS, Shard
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.metadata.image import Image
from ottla.metadata.records import Partition as PartitionRecord
from ottla.metadata.records import TopicDeleted
from ottla.metadata.store import Entry
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.replication.append.appender import Appender
from ottla.replication.append.flusher import Flusher
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.seams.clock import Clock
from ottla.seams.threads import Threads

if TYPE_CHECKING:
    from ottla.coordinators.group.machine import GroupMachine

GroupShard: TypeAlias = "Shard[GroupMachine]"

# Members of the same groups ask again and again.
HASHES_KEPT_MAX = 4096
# How many deletions are kept for a shard that could not act on them. Only offsets that were
# committed without a topic id need them: those with an id are compared with the image.
OWED_DELETIONS_MAX = 1_000


class Watch(Protocol):
    """Who is told what happens to shards that nobody asked for."""

    def loaded(self, partition: str, took_ms: int, longest_stall_ns: int) -> None:
        """The stall is for how long the load has kept others from their turn at most."""
        ...

    def record_skipped(self, partition: str, offset: int, error: Exception) -> None: ...

    def failed(self, partition: str, error: Exception) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What shards are made of, and what they act through."""

    replicas: Replicas
    appender: Appender
    flusher: Flusher
    clock: Clock
    threads: Threads
    spawn: Callable[[Coroutine[Any, Any, Any], str], None]
    new_machine: Callable[[], "GroupMachine"]
    watch: Watch
    commit_timeout_ms: int
    # What one decision changes is one batch of the log, and must fit it.
    decision_bytes_max: int


class _Owed:
    """The deletions that a shard has to act on, and when it is tried next, on the steady clock."""

    __slots__ = ("deleted", "due_ms")

    def __init__(self) -> None:
        self.deleted: deque[TopicDeleted] = deque(maxlen=OWED_DELETIONS_MAX)
        self.due_ms = 0


class Shards:
    """`start` at a start and `follow` for each later entry; `run` does not end."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._with = surroundings
        self._shards: dict[int, GroupShard] = {}
        self._partitions = 0
        self._deleted: deque[TopicDeleted] = deque()
        # The shards that may hold offsets of deleted topics: those that were loading when a topic
        # was deleted, have just been loaded, or could not write.
        self._owing: dict[GroupShard, _Owed] = {}
        self._image = Image()
        self._something_is_due = asyncio.Event()
        # One load at a time: those who load all at once take their turns one after another, and
        # whoever waits for an answer would wait for all of them.
        self._loading = asyncio.Lock()
        # Until when `run` sleeps; None: until it is woken.
        self._sleeps_until_ms: int | None = None

    def __iter__(self) -> Iterator[GroupShard]:
        """Those of the partitions that this broker leads now, loaded or not."""
        return iter(list(self._shards.values()))

    def partition_of(self, group_id: str) -> int:
        """The partition whose leader is the group's coordinator. PeerError if there is no topic."""
        if not self._partitions:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no group was ever asked for")
        return java_hash(group_id) % self._partitions

    def of(self, group_id: str) -> GroupShard:
        """The shard that has the group. PeerError if another broker's has it, or none yet."""
        shard = (
            self._shards.get(java_hash(group_id) % self._partitions) if self._partitions else None
        )
        if shard is None:
            raise PeerError(ErrorCode.NOT_COORDINATOR, "this broker is not the coordinator")
        if not shard.is_loaded:
            raise PeerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is loading")
        return shard

    # What the metadata log says

    def start(self, image: Image) -> None:
        self._image = image
        self._count_partitions(image)
        for index in range(self._partitions):
            self._follow(index)

    def follow(self, image: Image, entry: Entry) -> None:
        """After the replicas have followed it."""
        self._image = image
        for record in entry.records:
            match record:
                case PartitionRecord():
                    topic = image.topic_by_id(record.topic_id)
                    if topic is not None and topic.name == CONSUMER_OFFSETS:
                        self._count_partitions(image)
                        self._follow(record.index)
                case TopicDeleted(name=name) if name == CONSUMER_OFFSETS:
                    self._count_partitions(image)
                    for index in list(self._shards):
                        self._follow(index)
                case TopicDeleted():
                    self._deleted.append(record)
                    self._something_is_due.set()
                case _:
                    pass

    def _count_partitions(self, image: Image) -> None:
        topic = image.topic(CONSUMER_OFFSETS)
        self._partitions = len(image.partitions(topic.topic_id)) if topic else 0

    def _follow(self, index: int) -> None:
        """Lets go of a shard whose time is over, and begins the one whose time it is."""
        replica = self._with.replicas.named(CONSUMER_OFFSETS, index)
        shard = self._shards.get(index)
        if shard is not None and not _is_current(shard, replica):
            del self._shards[index]
            shard.close()
            shard = None
        if shard is None and replica is not None and replica.partition.is_leader:
            self._begin(index, replica)

    def _begin(self, index: int, replica: Replica) -> None:
        shard = self._shards[index] = Shard(
            replica,
            self._with.new_machine(),
            self._with.appender,
            self._with.flusher,
            self._with.clock,
            commit_timeout_ms=self._with.commit_timeout_ms,
            decision_bytes_max=self._with.decision_bytes_max,
            set_off=self._set_off,
            failed=self._failed,
        )
        if replica.log is None and not replica.is_unusable:
            # Nothing was ever written: most partitions of a young broker.
            for _ in shard.loaded():
                pass
        else:
            self._with.spawn(self._load(shard), f"load {replica.name}")

    async def _load(self, shard: GroupShard) -> None:
        name = str(shard.replica.name)
        # Its turn to load may come later: what is told is how long its coordinator was missing.
        began_ns = self._with.clock.steady_ns()

        def skipped(offset: int, error: StorageError) -> None:
            self._with.watch.record_skipped(name, offset, error)

        try:
            if shard.replica.is_unusable:
                raise StorageError(f"{name} could not be opened")
            async with self._loading:
                loader = Loader(shard, self._with.clock, self._with.threads, skipped)
                is_wanted = await loader.load()
        except (OSError, StorageError, PeerError) as error:
            # Nobody is its coordinator until the log can be read again.
            self._with.watch.failed(name, error)
            return
        if is_wanted:
            self._owe(shard, self._steady_ms())
            self._something_is_due.set()
            took_ms = (self._with.clock.steady_ns() - began_ns) // 1_000_000
            self._with.watch.loaded(name, took_ms, loader.longest_slice_ns)

    def _failed(self, shard: GroupShard, error: PeerError) -> None:
        """What a shard decided could not be written: it is made anew from what was."""
        replica = shard.replica
        self._with.watch.failed(str(replica.name), error)
        index = replica.name.partition
        if self._shards.get(index) is shard:
            del self._shards[index]
            self._follow(index)

    # Timers

    async def run(self) -> None:
        """Does what is due, when it is; after a millisecond of it others have their turn."""
        while True:
            self._something_is_due.clear()
            await self._expire()
            await self._drop_deleted()
            await self._drop_owed()
            self._sleeps_until_ms = self._soonest_ms()
            await self._sleep(self._sleeps_until_ms)

    def _set_off(self, due_ms: int) -> None:
        if self._sleeps_until_ms is None or due_ms < self._sleeps_until_ms:
            self._something_is_due.set()

    async def _sleep(self, until_ms: int | None) -> None:
        """Until then, or until something is due sooner."""
        wait_s = None if until_ms is None else max(0.0, (until_ms - self._steady_ms()) / 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._something_is_due.wait()

    async def _expire(self) -> None:
        slice_ends_ns = self._with.clock.steady_ns() + SLICE_NS_MAX
        for shard in self:
            while not shard.is_closed and shard.expire(self._steady_ms()):
                if self._with.clock.steady_ns() >= slice_ends_ns:
                    await asyncio.sleep(0)
                    slice_ends_ns = self._with.clock.steady_ns() + SLICE_NS_MAX

    # Offsets of topics that are gone

    def owed(self, shard: GroupShard) -> tuple[TopicDeleted, ...]:
        """The deletions that a shard could not act on yet."""
        owed = self._owing.get(shard)
        return () if owed is None else tuple(owed.deleted)

    def _owe(self, shard: GroupShard, due_ms: int, *deleted: TopicDeleted) -> None:
        owed = self._owing.setdefault(shard, _Owed())
        owed.deleted.extend(deleted)
        owed.due_ms = due_ms

    async def _drop_deleted(self) -> None:
        """What was committed of topics that are gone."""
        while self._deleted:
            deleted = self._deleted.popleft()
            for shard in self:
                if not await self._dropped(shard, deleted):
                    self._owe(shard, self._steady_ms() + RETRY_MS, deleted)

    async def _drop_owed(self) -> None:
        """What could not be dropped before, as far as it can be now."""
        for shard, owed in list(self._owing.items()):
            if shard.is_loaded and owed.due_ms <= self._steady_ms() and not shard.is_closed:
                if await self._settled(shard, owed):
                    del self._owing[shard]
                else:
                    owed.due_ms = self._steady_ms() + RETRY_MS
            if shard.is_closed:
                self._owing.pop(shard, None)

    async def _settled(self, shard: GroupShard, owed: "_Owed") -> bool:
        if not await self._compared(shard):
            return False
        while owed.deleted:
            if not await self._dropped(shard, owed.deleted[0]):
                return False
            owed.deleted.popleft()
        return True

    async def _dropped(self, shard: GroupShard, deleted: TopicDeleted) -> bool:
        """Drops what was committed of a deleted topic; False if that cannot be done now."""
        return await self._drop_all(
            shard, lambda: shard.machine.topic_deleted(deleted.name, deleted.topic_id)
        )

    async def _compared(self, shard: GroupShard) -> bool:
        """Drops all that the image says is of deleted topics; False if that cannot be done now."""
        slice_ends_ns = self._with.clock.steady_ns() + SLICE_NS_MAX
        for group_id in list(shard.machine.offsets.groups):
            if self._with.clock.steady_ns() >= slice_ends_ns:
                await asyncio.sleep(0)
                slice_ends_ns = self._with.clock.steady_ns() + SLICE_NS_MAX
            decide = partial(shard.machine.topics_gone, group_id, self._is_gone)
            if not await self._drop_all(shard, decide):
                return False
        return True

    async def _drop_all(self, shard: GroupShard, decide: Callable[[], Decision]) -> bool:
        """Acts on what is decided until that is nothing; False if a shard cannot act now."""
        while not shard.is_closed:
            if not shard.is_loaded:
                return False
            decision = decide()
            if not decision.records:
                return True
            try:
                shard.act(partial(_decided, decision))
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

    def _soonest_ms(self) -> int | None:
        due = [shard.next_due_ms for shard in self]
        due += [owed.due_ms for shard, owed in self._owing.items() if shard.is_loaded]
        return min((due_ms for due_ms in due if due_ms is not None), default=None)

    def _steady_ms(self) -> int:
        return self._with.clock.steady_ns() // 1_000_000


@lru_cache(HASHES_KEPT_MAX)
def java_hash(text: str) -> int:
    """What Kafka makes of a group's id: Java's hash of a string, without its sign."""
    number = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        number = (31 * number + (encoded[at] << 8 | encoded[at + 1])) & 0xFFFFFFFF
    return number & 0x7FFFFFFF


def _decided(decision: Decision, _now_ms: int) -> Decision:
    return decision


def _is_current(shard: GroupShard, replica: Replica | None) -> bool:
    return (
        replica is shard.replica
        and replica.partition.is_leader
        and replica.partition.leader_epoch == shard.leader_epoch
        and not shard.is_closed
    )
