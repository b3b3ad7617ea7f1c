"""Probes in every broker of a simulation: they tell the oracle what the brokers do."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ottla.broker.node import node
from ottla.metadata import publisher
from ottla.metadata.decision_queue import Decide
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metadata.records import Record
from ottla.metadata.store import Entry, Fence, Fenced, Snapshot
from ottla.metadata.zookeeper.store import ZooKeeperStore
from ottla.replication.append.appender import Appender, AppendResult
from ottla.replication.replica import Replica
from tests.sim.cluster.metadata_audit import SavedSnapshot, StoreClaims
from tests.sim.cluster.oracle import Oracle
from tests.sim.seams.owner import OWNER

# So low that the controllers of a seed save several snapshots.
MIN_REPLAYED_PER_SNAPSHOT = 40


@contextmanager
def probing(oracle: Oracle, claims: StoreClaims) -> Iterator[None]:
    """All brokers of this process are probed inside the context."""
    with (
        # Freezing is for a process that has one node, not one after another.
        patch.object(node, "gc"),
        patch.object(publisher, "MIN_REPLAYED_PER_SNAPSHOT", MIN_REPLAYED_PER_SNAPSHOT),
        _images_probed(oracle),
        _appends_probed(oracle),
        _stores_probed(claims),
    ):
        yield


@contextmanager
def _stores_probed(claims: StoreClaims) -> Iterator[None]:
    append, save = ZooKeeperStore._append, ZooKeeperStore.save
    commit = Publisher.commit

    async def append_and_tell(self: ZooKeeperStore, entry: bytes, fence: Fence) -> int:
        try:
            offset = await append(self, entry, fence)
        except Fenced:
            claims.refused.append((fence.epoch, entry))
            raise
        claims.acknowledged[offset] = fence.epoch, entry
        return offset

    async def save_and_tell(self: ZooKeeperStore, snapshot: Snapshot, fence: Fence) -> None:
        claims.on_save(_process())
        await save(self, snapshot, fence)
        claims.saved.append(SavedSnapshot(snapshot.offset, fence.epoch))

    async def commit_and_tell(self: Publisher, decide: Decide) -> Any:
        decided: Sequence[Record] = ()

        def decide_and_tell(image: Image) -> tuple[Sequence[Record], Any]:
            nonlocal decided
            decided, reply = decide(image)
            return decided, reply

        reply = await commit(self, decide_and_tell)
        claims.answered += decided
        return reply

    with (
        patch.object(Publisher, "commit", commit_and_tell),
        patch.object(ZooKeeperStore, "_append", append_and_tell),
        patch.object(ZooKeeperStore, "save", save_and_tell),
    ):
        yield


@contextmanager
def _images_probed(oracle: Oracle) -> Iterator[None]:
    load, publish, jump = Publisher.load, Publisher._publish, Publisher._jump
    # Those that continue from a snapshot publish the difference, which is no entry of the log.
    jumping: set[Publisher] = set()

    async def jump_and_tell(self: Publisher) -> None:
        jumping.add(self)
        try:
            await jump(self)
        finally:
            jumping.discard(self)

    async def load_and_tell(self: Publisher) -> None:
        await load(self)
        oracle.loaded(_process(), self.image)

    async def tell_and_publish(self: Publisher, entry: Entry) -> None:
        if self not in jumping:
            oracle.applied(_process(), self.image, entry)
        await publish(self, entry)

    with (
        patch.object(Publisher, "load", load_and_tell),
        patch.object(Publisher, "_jump", jump_and_tell),
        patch.object(Publisher, "_publish", tell_and_publish),
    ):
        yield


@contextmanager
def _appends_probed(oracle: Oracle) -> Iterator[None]:
    append, append_together = Appender.append, Appender.append_together

    def append_and_tell(self: Appender, replica: Replica, *args: Any, **named: Any) -> AppendResult:
        result = append(self, replica, *args, **named)
        if result.record_count:
            _tell(oracle, replica, result.leader_epoch)
        return result

    def append_together_and_tell(self: Appender, replica: Replica, *args: Any, **named: Any) -> Any:
        result = append_together(self, replica, *args, **named)
        if result is not None:
            _tell(oracle, replica, replica.partition.leader_epoch)
        return result

    with (
        patch.object(Appender, "append", append_and_tell),
        patch.object(Appender, "append_together", append_together_and_tell),
    ):
        yield


def _tell(oracle: Oracle, replica: Replica, leader_epoch: int) -> None:
    partition = replica.partition
    key = partition.topic_id, partition.index
    oracle.appended(_process(), partition._me.broker_id, key, leader_epoch)


def _process() -> str:
    """The process whose code runs."""
    owner = OWNER.get()
    return owner.name if owner is not None else "simulation"
