"""Which shards a broker has: those of the partitions that it leads, from their logs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.machine import GroupMachine, GroupRules
from ottla.coordinators.group.records import OffsetCommitted
from ottla.coordinators.runtime.decision import Decision
from ottla.coordinators.runtime.shard import RETRY_MS
from ottla.coordinators.runtime.shards import Shards, Surroundings, java_hash
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.records import Record
from ottla.metadata.store import Entry
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.replication.append.flusher import Flusher
from ottla.replication.replica import Replica
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.threads import SimThreads
from tests.support.replication.partitions import ME, OTHER, Partitions, topic_id

RULES = GroupRules(
    offset_metadata_bytes_max=4096,
    commit_bytes_max=1 << 20,
    offsets_retention_ms=1_000_000,
    retention_check_interval_ms=10_000,
    groups_max=100,
)
PARTITIONS = 4


def no_members(group_id: str) -> Any:
    raise AssertionError(f"{group_id} has members")


class Stage(Partitions):
    """A broker's partitions and its shards. They note what happens to them."""

    def __init__(self) -> None:
        super().__init__()
        self.happened: list[str] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.restart_shards()

    def restart_shards(self) -> None:
        threads = SimThreads(SimEntropy())
        self.shards = Shards(
            Surroundings(
                replicas=self.replicas,
                appender=self.appender,
                flusher=Flusher(threads),
                clock=self.clock,
                threads=threads,
                spawn=self._spawn,
                new_machine=lambda: GroupMachine(RULES, no_members, ConsumerGroup),
                watch=self,
                commit_timeout_ms=5_000,
                # More than the log takes.
                decision_bytes_max=2 << 20,
            )
        )

    def commit(self, *changes: Record) -> None:
        super().commit(*changes)
        self.shards.follow(self.image, Entry(self.image.n, changes))

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
        """Another broker leads the partition for a moment: its shard begins to load again."""
        self.change(replica, leader=OTHER)
        self.change(replica, leader=ME)

    def offsets(self, group: str) -> list[int]:
        return [committed.offset for committed in self.shards.of(group).machine.offsets.of(group)]

    async def write(
        self, group: str, topic: str = "events", offset: int = 5, of_id: Uuid | None = None
    ) -> None:
        record = OffsetCommitted(
            group,
            topic,
            0,
            offset,
            commit_ms=self.clock.wall_ms(),
            topic_id=topic_id(1) if of_id is None else of_id,
        )
        self.shards.of(group).act(lambda _: Decision((record,)))
        # It is written in the next turn of the loop, and perhaps never committed.
        await asyncio.sleep(0)


def on_stage(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    stage = Stage()
    run(story(stage), clock=stage.clock)


def refusal(ask: Callable[[], object]) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        ask()
    return caught.value.code


def test_without_the_topic_nobody_is_a_coordinator() -> None:
    async def story(stage: Stage) -> None:
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR
        code = refusal(lambda: stage.shards.partition_of("g"))
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    on_stage(story)


def test_a_group_is_in_the_partition_that_its_hash_says() -> None:
    async def story(stage: Stage) -> None:
        stage.create(CONSUMER_OFFSETS, PARTITIONS)
        for group in ("a", "b", "c", "my-group"):
            index = java_hash(group) % PARTITIONS
            assert stage.shards.partition_of(group) == index
            assert stage.shards.of(group).replica.name.partition == index

    on_stage(story)


def test_who_leads_no_more_is_no_coordinator_and_who_leads_again_reads_the_log() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        await stage.write("g")
        first = stage.shards.of("g")
        stage.change(replica, leader=OTHER)
        assert first.is_closed
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR
        stage.change(replica, leader=ME)
        code = refusal(lambda: stage.shards.of("g"))
        assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await stage.settle()
        assert stage.happened == [f"loaded {CONSUMER_OFFSETS}-0"]
        second = stage.shards.of("g")
        assert second is not first
        assert second.machine.offsets.get("g", "events", 0) is not None

    on_stage(story)


def test_a_change_of_the_isr_leaves_a_shard_as_it_is() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        first = stage.shards.of("g")
        stage.change(replica, isr=(ME,))
        assert stage.shards.of("g") is first

    on_stage(story)


def test_a_load_that_was_overtaken_by_another_leader_changes_nothing() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        await stage.write("g")
        stage.change(replica, leader=OTHER)
        stage.change(replica, leader=ME)
        stage.change(replica, leader=OTHER)
        await stage.settle()
        assert stage.happened == []
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR

    on_stage(story)


def test_a_shard_whose_decision_could_not_be_written_begins_anew() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(CONSUMER_OFFSETS)
        await stage.write("g")
        first = stage.shards.of("g")
        huge = tuple(OffsetCommitted("h", "t", 0, 1, metadata="m" * 30_000) for _ in range(40))
        with pytest.raises(PeerError) as caught:
            await first.write(lambda _: Decision(huge))
        assert caught.value.code == ErrorCode.NOT_COORDINATOR
        assert stage.happened == [f"failed {replica.name}"]
        await stage.settle()
        second = stage.shards.of("g")
        assert second is not first
        assert list(second.machine.offsets.groups) == ["g"]

    on_stage(story)


def test_a_deleted_offsets_topic_takes_its_shards_along() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(CONSUMER_OFFSETS, PARTITIONS)
        assert len(list(stage.shards)) == PARTITIONS
        stage.delete(replica)
        assert list(stage.shards) == []
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR

    on_stage(story)


def test_what_is_due_is_done_when_it_is_due_and_a_deleted_topic_is_forgotten() -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        stage.create(CONSUMER_OFFSETS)
        running = asyncio.create_task(stage.shards.run())
        await asyncio.sleep(1)
        await stage.write("g")
        state = stage.shards.of("g").machine
        await asyncio.sleep(RULES.offsets_retention_ms / 1000 - 60)
        assert "g" in state
        await asyncio.sleep(120)
        assert "g" not in state
        await stage.write("h")
        stage.delete(events)
        await asyncio.sleep(0.01)
        assert list(state.offsets.of("h")) == []
        running.cancel()

    on_stage(story)


# Topics that go while a shard cannot drop their offsets


@asynccontextmanager
async def running(stage: Stage) -> AsyncIterator[None]:
    """What is due is done, for the time being."""
    task = asyncio.create_task(stage.shards.run())
    try:
        yield
    finally:
        task.cancel()


@pytest.mark.parametrize("of_id", [topic_id(1), ZERO_UUID], ids=["with its id", "without an id"])
@pytest.mark.parametrize("is_made_anew", [True, False])
def test_offsets_of_a_topic_deleted_while_a_shard_loads_are_dropped_after_the_load(
    of_id: Uuid, is_made_anew: bool
) -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        async with running(stage):
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
def test_offsets_of_a_topic_deleted_before_a_start_are_dropped_after_the_load(
    is_made_anew: bool,
) -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        await stage.write("g")
        # Nobody drops anything before the broker dies.
        stage.delete(events)
        if is_made_anew:
            stage.create("events")
            await stage.write("h", of_id=topic_id(3))
        stage.restart_shards()
        async with running(stage):
            stage.shards.start(stage.image)
            await stage.settle()
            await asyncio.sleep(0.1)
            assert stage.offsets("g") == []
            assert stage.offsets("h") == ([5] if is_made_anew else [])
        stage.reload(replica)
        await stage.settle()
        assert stage.offsets("g") == []

    on_stage(story)


def test_offsets_of_topics_that_nobody_has_deleted_are_kept() -> None:
    """They may be of a topic that is adopted later: nothing here says that it is gone."""

    async def story(stage: Stage) -> None:
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        async with running(stage):
            await stage.write("g", of_id=topic_id(77))
            stage.reload(replica)
            await stage.settle()
            await asyncio.sleep(0.1)
            assert stage.offsets("g") == [5]

    on_stage(story)


def test_offsets_that_cannot_be_dropped_now_are_dropped_once_there_is_room() -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        stage.create(CONSUMER_OFFSETS)
        async with running(stage):
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


def test_a_commit_of_the_topic_made_anew_outlives_the_drop_of_the_old_ones() -> None:
    async def story(stage: Stage) -> None:
        events = stage.create("events")
        replica = stage.create(CONSUMER_OFFSETS, isr=(ME, OTHER))
        async with running(stage):
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


def test_what_a_shard_owes_is_bounded_and_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinators.runtime.shards.OWED_DELETIONS_MAX", 3)

    async def story(stage: Stage) -> None:
        offsets_topic = stage.create(CONSUMER_OFFSETS)
        async with running(stage):
            (shard,) = stage.shards
            for number in range(10):
                await stage.write("g", f"topic-{number}", of_id=ZERO_UUID)
            stage.replicas.directories.full["/data"] = "the disk is full"
            for number in range(10):
                stage.delete(stage.create(f"topic-{number}"))
                await asyncio.sleep(0.01)
            # Only what has no id needs more than the image to be told apart.
            assert [each.name for each in stage.shards.owed(shard)] == [
                "topic-7",
                "topic-8",
                "topic-9",
            ]
            stage.delete(offsets_topic)
            await asyncio.sleep(10)
            assert stage.shards.owed(shard) == ()

    on_stage(story)
