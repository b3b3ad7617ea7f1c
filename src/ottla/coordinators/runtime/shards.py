"""The shards of one coordinator on this broker: one per partition of its topic that it leads.

They follow the metadata log: the shard of a partition is loaded when this broker becomes its
leader, and closed when it no longer is. A shard whose broker loses its session closes itself. One
task handles the timers of all shards.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol

from ottla.coordinators.runtime.key_hash import java_hash
from ottla.coordinators.runtime.loading import READ_BYTES, SLICE_NS_MAX, Loader
from ottla.coordinators.runtime.shard import EffectT, MachineT, Shard
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.metadata.image import Image
from ottla.metadata.records import Partition as PartitionRecord
from ottla.metadata.records import TopicDeleted
from ottla.metadata.store import Entry
from ottla.replication.append.appender import Appender
from ottla.replication.append.flusher import Flusher
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.seams.clock import Clock
from ottla.seams.threads import Threads

# The number of no partition.
NO_PARTITION = -1


class ShardListener(Protocol):
    """Receives the events of shards that are not answers to requests."""

    def loaded(self, partition: str, took_ms: int, longest_stall_ns: int) -> None:
        """`longest_stall_ns` is the longest time for which the load blocked other tasks."""
        ...

    def record_skipped(self, partition: str, offset: int, error: Exception) -> None: ...

    def failed(self, partition: str, error: Exception) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardParts:
    """The parts of the broker that the shards of all its coordinators use."""

    replicas: Replicas
    appender: Appender
    flusher: Flusher
    clock: Clock
    threads: Threads
    spawn: Callable[[Coroutine[Any, Any, Any], str], object]
    # One load at a time: concurrent loads would make each other request wait for all of them.
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorKind(Generic[MachineT, EffectT]):
    """The differences between coordinators.

    A key belongs to the partition with the number of its hash modulo the topic's partition count.
    """

    topic: str
    new_machine: Callable[[], MachineT]
    perform: Callable[[EffectT], None]
    listener: ShardListener
    commit_timeout_ms: int
    # The records of one decision must fit one batch of the log.
    decision_bytes_max: int
    hash_key: Callable[[str], int] = java_hash
    # How much of the log is read at once for a load.
    load_buffer_bytes: int = READ_BYTES


class Shards(Generic[MachineT, EffectT]):
    """Call `start` with the first image and `follow` for each later entry; `run` does not end."""

    def __init__(self, kind: CoordinatorKind[MachineT, EffectT], parts: ShardParts) -> None:
        self._kind = kind
        self._parts = parts
        self._clock = parts.clock
        self._hash_key = kind.hash_key
        self._shards: dict[int, Shard[MachineT, EffectT]] = {}
        self._partitions = 0
        self._on_loaded: list[Callable[[Shard[MachineT, EffectT]], None]] = []
        self._timer_was_set = asyncio.Event()
        # When the sleep of `run` ends; None: when it is woken.
        self._sleeps_until_ms: int | None = None

    def __iter__(self) -> Iterator[Shard[MachineT, EffectT]]:
        """The shards of the partitions that this broker leads now, loaded or not."""
        return iter([shard for shard in self._shards.values() if not shard.is_closed])

    def partition_of(self, key: str) -> int:
        """The partition whose leader is the key's coordinator. PeerError without the topic."""
        if not self._partitions:
            raise PeerError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._kind.topic} does not exist"
            )
        return self._hash_key(key) % self._partitions

    def of(self, key: str) -> Shard[MachineT, EffectT]:
        """The shard of the key. PeerError if it is on another broker or loading."""
        return self.of_partition(
            self._hash_key(key) % self._partitions if self._partitions else NO_PARTITION
        )

    def of_partition(self, index: int) -> Shard[MachineT, EffectT]:
        """The shard of a partition. PeerError if it is on another broker or loading."""
        shard = self._shards.get(index)
        if shard is None or shard.is_closed:
            raise PeerError(ErrorCode.NOT_COORDINATOR, "this broker is not the coordinator")
        if not shard.is_loaded:
            raise PeerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is loading")
        return shard

    def on_loaded(self, callback: Callable[[Shard[MachineT, EffectT]], None]) -> None:
        """From now on `callback` is called with every shard that was loaded from a log."""
        self._on_loaded.append(callback)

    # The metadata log

    def start(self, image: Image) -> None:
        self._count_partitions(image)
        for index in range(self._partitions):
            self._follow(index)

    def follow(self, image: Image, entry: Entry) -> None:
        """The replicas must have followed the entry before."""
        for record in entry.records:
            match record:
                case PartitionRecord():
                    topic = image.topic_by_id(record.topic_id)
                    if topic is not None and topic.name == self._kind.topic:
                        self._count_partitions(image)
                        self._follow(record.index)
                case TopicDeleted(name=name) if name == self._kind.topic:
                    self._count_partitions(image)
                    for index in list(self._shards):
                        self._follow(index)
                case _:
                    pass

    def _count_partitions(self, image: Image) -> None:
        topic = image.topic(self._kind.topic)
        self._partitions = len(image.partitions(topic.topic_id)) if topic else 0

    def _follow(self, index: int) -> None:
        """Closes the shard of an earlier leader epoch and starts the one of the current epoch."""
        replica = self._parts.replicas.named(self._kind.topic, index)
        shard = self._shards.get(index)
        if shard is not None and not _is_current(shard, replica):
            del self._shards[index]
            shard.close()
            shard = None
        if shard is None and replica is not None and replica.partition.is_leader:
            self._start_shard(index, replica)

    def _start_shard(self, index: int, replica: Replica) -> None:
        kind, parts = self._kind, self._parts
        shard = self._shards[index] = Shard(
            replica,
            kind.new_machine(),
            parts.appender,
            parts.flusher,
            parts.clock,
            commit_timeout_ms=kind.commit_timeout_ms,
            decision_bytes_max=kind.decision_bytes_max,
            perform=kind.perform,
            schedule=self._wake_by,
            on_failed=self._reload,
            spawn=parts.spawn,
        )
        if replica.log is None and not replica.is_unusable:
            # The partition is empty, as are most partitions of a new broker.
            for _ in shard.loaded():
                pass
        else:
            parts.spawn(self._load(shard), f"load {replica.name}")

    async def _load(self, shard: Shard[MachineT, EffectT]) -> None:
        name = str(shard.replica.name)
        # With the wait for other loads: the time for which the coordinator was missing is reported.
        began_ns = self._clock.steady_ns()

        def skipped(offset: int, error: StorageError) -> None:
            self._kind.listener.record_skipped(name, offset, error)

        try:
            if shard.replica.is_unusable:
                raise StorageError(f"{name} could not be opened")
            async with self._parts.loading:
                loader = Loader(
                    shard,
                    self._clock,
                    self._parts.threads,
                    skipped,
                    self._kind.load_buffer_bytes,
                )
                is_wanted = await loader.load()
        except (OSError, StorageError, PeerError) as error:
            # The partition has no coordinator until its log can be read again. One that was closed
            # meanwhile may be cut by the next leader.
            if not shard.is_closed:
                self._kind.listener.failed(name, error)
            return
        if is_wanted:
            for callback in self._on_loaded:
                callback(shard)
            took_ms = (self._clock.steady_ns() - began_ns) // 1_000_000
            self._kind.listener.loaded(name, took_ms, loader.longest_slice_ns)

    def _reload(self, shard: Shard[MachineT, EffectT], error: PeerError) -> None:
        """A shard's decisions could not be appended: a new shard is loaded from the log."""
        replica = shard.replica
        self._kind.listener.failed(str(replica.name), error)
        index = replica.name.partition
        if self._shards.get(index) is shard:
            del self._shards[index]
            self._follow(index)

    # Timers

    async def run(self) -> None:
        """Handles due timers; other tasks run after each millisecond of it."""
        while True:
            self._timer_was_set.clear()
            await self._expire()
            due = [due_ms for shard in self if (due_ms := shard.next_due_ms) is not None]
            self._sleeps_until_ms = min(due, default=None)
            await self._sleep(self._sleeps_until_ms)

    def _wake_by(self, due_ms: int) -> None:
        if self._sleeps_until_ms is None or due_ms < self._sleeps_until_ms:
            self._timer_was_set.set()

    async def _sleep(self, until_ms: int | None) -> None:
        """Sleeps until then, or until an earlier timer is set."""
        wait_s = None if until_ms is None else max(0.0, (until_ms - self._steady_ms()) / 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._timer_was_set.wait()

    async def _expire(self) -> None:
        slice_ends_ns = self._clock.steady_ns() + SLICE_NS_MAX
        for shard in self:
            while not shard.is_closed and shard.expire(self._steady_ms()):
                if self._clock.steady_ns() >= slice_ends_ns:
                    await asyncio.sleep(0)
                    slice_ends_ns = self._clock.steady_ns() + SLICE_NS_MAX

    def _steady_ms(self) -> int:
        return self._clock.steady_ns() // 1_000_000


def _is_current(shard: Shard[Any, Any], replica: Replica | None) -> bool:
    return (
        replica is shard.replica
        and replica.partition.is_leader
        and replica.partition.leader_epoch == shard.leader_epoch
        and not shard.is_closed
    )
