"""The partitions of a broker and the shards of one coordinator; it records the shards' events."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Generic

import pytest

from ottla.coordinators.runtime.shard import EffectT, MachineT
from ottla.coordinators.runtime.shards import CoordinatorKind, ShardParts, Shards
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.records import Record
from ottla.metadata.store import Entry
from ottla.replication.append.flusher import Flusher
from ottla.replication.replica import Replica
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.threads import SimThreads
from tests.support.replication.partitions import ME, OTHER, Partitions


class ShardStage(Partitions, ABC, Generic[MachineT, EffectT]):
    """`kind` is the coordinator of the shards."""

    def __init__(self) -> None:
        super().__init__()
        self.happened: list[str] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.restart_shards()

    @abstractmethod
    def kind(self) -> CoordinatorKind[MachineT, EffectT]: ...

    def restart_shards(self) -> None:
        threads = SimThreads(SimEntropy())
        parts = ShardParts(
            replicas=self.replicas,
            appender=self.appender,
            flusher=Flusher(threads),
            clock=self.clock,
            threads=threads,
            spawn=self._spawn,
        )
        self.shards = Shards(self.kind(), parts)

    def follow(self, entry: Entry) -> None:
        self.shards.follow(self.image, entry)

    async def act_on_timers(self) -> None:
        await self.shards.run()

    def commit(self, *changes: Record) -> None:
        super().commit(*changes)
        self.follow(Entry(self.image.offset, changes))

    def loaded(self, partition: str, took_ms: int, longest_stall_ns: int) -> None:
        self.happened.append(f"loaded {partition}")

    def record_skipped(self, partition: str, offset: int, error: Exception) -> None:
        self.happened.append(f"skipped {partition} {offset}")

    def failed(self, partition: str, error: Exception) -> None:
        self.happened.append(f"failed {partition}")

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        self.tasks.append(asyncio.create_task(work, name=name))

    async def settle(self) -> None:
        await asyncio.gather(*self.tasks)

    def reload(self, replica: Replica) -> None:
        """Another broker leads the partition for a short time: its shard is loaded again."""
        isr = replica.partition.isr
        self.change(replica, leader=OTHER, isr=(ME, OTHER))
        self.change(replica, leader=ME, isr=isr)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the timers and loads of the shards inside the context."""
        task = asyncio.create_task(self.act_on_timers())
        try:
            yield
        finally:
            task.cancel()


def refusal(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        ask()
    return caught.value.code


async def refusal_of(coming: Awaitable[Any]) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        await coming
    return caught.value.code
