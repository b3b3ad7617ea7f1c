"""Offsets of deleted topics are removed at once, or once a shard can write."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Never, assert_never

import pytest

from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.coordinator import GroupCoordinator
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.machine import GroupMachine, GroupRules
from ottla.coordinators.group.records import OffsetCommitted
from ottla.coordinators.runtime.shard import RETRY_MS
from ottla.coordinators.runtime.shards import CoordinatorKind
from ottla.errors import ErrorCode
from ottla.metadata.store import Entry
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.protocol.batch import MarkerKind
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.replication.append.transaction_marker import TransactionMarker
from tests.sim.seams.loop import run
from tests.support.coordinators.shard_stage import ShardStage, refusal
from tests.support.replication.partitions import ME, OTHER, topic_id

RULES = GroupRules(
    offset_metadata_bytes_max=4096,
    commit_bytes_max=1 << 20,
    offsets_retention_ms=1_000_000,
    retention_check_interval_ms=10_000,
    groups_max=100,
)


PRODUCER = ProducerIdAndEpoch(7, 0)


def no_members(group_id: str) -> Any:
    raise AssertionError(f"{group_id} has members")


class Stage(ShardStage[GroupMachine, Never]):
    """The group coordinator without its broker."""

    def kind(self) -> CoordinatorKind[GroupMachine, Never]:
        return CoordinatorKind(
            topic=CONSUMER_OFFSETS,
            new_machine=lambda: GroupMachine(RULES, no_members, ConsumerGroup),
            perform=assert_never,
            listener=self,
            commit_timeout_ms=5_000,
            decision_bytes_max=1 << 20,
        )

    def restart_shards(self) -> None:
        super().restart_shards()
        self.coordinator = GroupCoordinator(self.shards, self.clock)

    def follow(self, entry: Entry) -> None:
        self.coordinator.follow(self.image, entry)

    async def act_on_timers(self) -> None:
        await self.coordinator.run()

    def offsets(self, group: str) -> list[int]:
        return [committed.offset for committed in self.shards.of(group).machine.offsets.of(group)]

    async def write(
        self,
        group: str,
        topic: str = "events",
        offset: int = 5,
        of_id: Uuid | None = None,
        *,
        transaction: ProducerIdAndEpoch | None = None,
    ) -> None:
        record = OffsetCommitted(
            group,
            topic,
            0,
            offset,
            commit_ms=self.clock.wall_ms(),
            topic_id=topic_id(1) if of_id is None else of_id,
        )
        self.shards.of(group).apply(lambda _: Decision((record,), transaction=transaction))
        # It is written in the next turn of the loop, and may never be committed.
        await asyncio.sleep(0)


def on_stage(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    stage = Stage()
    run(story(stage), clock=stage.clock)


def test_offsets_of_a_deleted_topic_are_removed_and_timers_expire() -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        stage.create(CONSUMER_OFFSETS)
        async with stage.running():
            await asyncio.sleep(1)
            await stage.write("g")
            machine = stage.shards.of("g").machine
            await asyncio.sleep(RULES.offsets_retention_ms / 1000 - 60)
            assert "g" in machine
            await asyncio.sleep(120)
            assert "g" not in machine
            await stage.write("h")
            stage.delete(events)
            await asyncio.sleep(0.01)
            assert list(machine.offsets.of("h")) == []

    on_stage(story)


@pytest.mark.parametrize("of_id", [topic_id(1), ZERO_UUID], ids=["with its id", "without an id"])
@pytest.mark.parametrize("is_made_anew", [True, False])
def test_offsets_of_a_topic_deleted_while_a_shard_loads_are_removed_after_the_load(
    of_id: Uuid, is_made_anew: bool
) -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        async with stage.running():
            await stage.write("g", of_id=of_id)
            await stage.write("g", "kept", 6, of_id=ZERO_UUID)
            stage.reload(replica)
            await asyncio.sleep(0)
            assert refusal(lambda: stage.shards.of("g")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            stage.delete(events)
            if is_made_anew:
                stage.create("events")
            await stage.settle()
            await asyncio.sleep(0.1)
            assert stage.offsets("g") == [6]
        stage.reload(replica)
        await stage.settle()
        assert stage.offsets("g") == [6]

    on_stage(story)


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_offsets_of_a_topic_deleted_before_a_start_are_removed_after_the_load(
    is_made_anew: bool,
) -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        await stage.write("g")
        # The broker stops before any offset is removed.
        stage.delete(events)
        if is_made_anew:
            stage.create("events")
            await stage.write("h", of_id=topic_id(3))
        stage.restart_shards()
        async with stage.running():
            stage.coordinator.start(stage.image)
            await stage.settle()
            await asyncio.sleep(0.1)
            assert stage.offsets("g") == []
            assert stage.offsets("h") == ([5] if is_made_anew else [])
        stage.reload(replica)
        await stage.settle()
        assert stage.offsets("g") == []

    on_stage(story)


@pytest.mark.parametrize("is_loading", [False, True])
def test_offsets_of_open_transactions_are_removed_with_their_topic(is_loading: bool) -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        async with stage.running():
            await stage.write("g", transaction=PRODUCER)
            await stage.write("g", "kept", 6, of_id=ZERO_UUID, transaction=PRODUCER)
            if is_loading:
                stage.reload(replica)
                await asyncio.sleep(0)
            stage.delete(events)
            await stage.settle()
            await asyncio.sleep(0.1)
            shard = stage.shards.of("g")
            assert shard.machine.offsets.pending.partitions("g") == [("kept", 0)]
            shard.append_marker(TransactionMarker(*PRODUCER, MarkerKind.COMMIT, 0))
            assert stage.offsets("g") == [6]
        stage.reload(replica)
        await stage.settle()
        assert stage.offsets("g") == [6]

    on_stage(story)


def test_offsets_of_unknown_topics_are_kept() -> None:
    """The topic may be adopted later: the image does not say that it was deleted."""

    async def story(stage: Stage) -> None:
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        async with stage.running():
            await stage.write("g", of_id=topic_id(77))
            stage.reload(replica)
            await stage.settle()
            await asyncio.sleep(0.1)
            assert stage.offsets("g") == [5]

    on_stage(story)


def test_offsets_that_cannot_be_removed_now_are_removed_once_the_disk_has_room() -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        stage.create(CONSUMER_OFFSETS)
        async with stage.running():
            await stage.write("g")
            await stage.write("h", of_id=ZERO_UUID)
            stage.replicas.directories.full["/data"] = "the disk is full"
            stage.delete(events)
            await asyncio.sleep(3)
            assert (stage.offsets("g"), stage.offsets("h")) == ([5], [5])
            stage.replicas.directories.full.clear()
            await asyncio.sleep(2 * RETRY_MS / 1000)
            assert (stage.offsets("g"), stage.offsets("h")) == ([], [])

    on_stage(story)


def test_a_commit_for_a_recreated_topic_survives_the_removal_of_the_old_offsets() -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        async with stage.running():
            await stage.write("g")
            stage.reload(replica)
            await asyncio.sleep(0)
            stage.delete(events)
            stage.create("events")
            await stage.settle()
            await stage.write("g", offset=7, of_id=topic_id(3))
            await asyncio.sleep(0.1)
            assert stage.offsets("g") == [7]

    on_stage(story)


def test_the_pending_deletions_of_a_shard_are_bounded_and_end_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "ottla.coordinators.group.deleted_topics.MAX_PENDING_DELETIONS_PER_SHARD", 3
    )

    async def story(stage: Stage) -> None:
        offsets_topic = stage.create(CONSUMER_OFFSETS)
        async with stage.running():
            (shard,) = stage.shards
            for number in range(10):
                await stage.write("g", f"topic-{number}", of_id=ZERO_UUID)
            stage.replicas.directories.full["/data"] = "the disk is full"
            for number in range(10):
                stage.delete(stage.create(f"topic-{number}"))
                await asyncio.sleep(0.01)
            # Only offsets without a topic id need the pending deletions.
            assert [each.name for each in stage.coordinator.deleted_topics.pending(shard)] == [
                "topic-7",
                "topic-8",
                "topic-9",
            ]
            stage.delete(offsets_topic)
            await asyncio.sleep(10)
            assert stage.coordinator.deleted_topics.pending(shard) == ()

    on_stage(story)
