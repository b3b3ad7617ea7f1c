"""A broker has a shard per partition that it leads, loaded from the partition's log.

The coordinator of these tests has counters instead of groups.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.coordinators.runtime.decision import NOTHING, Decision
from ottla.coordinators.runtime.loading import Loader
from ottla.coordinators.runtime.shards import CoordinatorKind
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.metadata.records import Broker
from ottla.metadata.values import BrokerState, Incarnation
from tests.sim.seams.loop import run
from tests.support.coordinators.counters import (
    COUNTERS_TOPIC,
    IDLE_MS,
    Announce,
    Counted,
    Counters,
)
from tests.support.coordinators.shard_stage import ShardStage, refusal, refusal_of
from tests.support.replication.partitions import ME, OTHER

PARTITIONS = 4


class Stage(ShardStage[Counters, Announce]):
    """The coordinator of counters: records announcements, and acknowledges them if `is_heard`."""

    def __init__(self) -> None:
        self.announced: list[Announce] = []
        self.is_heard = True
        super().__init__()

    def kind(self) -> CoordinatorKind[Counters, Announce]:
        return CoordinatorKind(
            topic=COUNTERS_TOPIC,
            new_machine=Counters,
            perform=self.announce,
            listener=self,
            commit_timeout_ms=5_000,
            # More than the log accepts.
            decision_bytes_max=2 << 20,
            hash_key=len,
        )

    def announce(self, announcement: Announce) -> None:
        self.announced.append(announcement)
        if self.is_heard:
            shard = self.shards.of(announcement.key)
            shard.apply(lambda now_ms: shard.machine.announced(announcement, now_ms))

    def add(self, key: str) -> "asyncio.Future[object]":
        shard = self.shards.of(key)
        return shard.ask(lambda ticket, now_ms: shard.machine.add(key, ticket, now_ms))

    async def write(self, key: str) -> None:
        """Counts without waiting for the commit."""
        self.add(key).cancel()
        await asyncio.sleep(0)

    async def add_and_announce(self, key: str) -> None:
        await self.add(key)
        # The effect is performed in another turn, and its decision is written in the next one.
        await asyncio.sleep(0.001)


def on_stage(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    stage = Stage()
    run(story(stage), clock=stage.clock)


def test_without_the_topic_there_is_no_coordinator() -> None:
    async def story(stage: Stage) -> None:
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR
        code = refusal(lambda: stage.shards.partition_of("g"))
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    on_stage(story)


def test_the_hash_of_a_key_selects_its_partition() -> None:
    async def story(stage: Stage) -> None:
        stage.create(COUNTERS_TOPIC, PARTITIONS)
        for key in ("a", "bb", "ccc", "my-group"):
            index = len(key) % PARTITIONS
            assert stage.shards.partition_of(key) == index
            assert stage.shards.of(key).replica.name.partition == index

    on_stage(story)


def test_a_coordinator_ignores_other_topics() -> None:
    async def story(stage: Stage) -> None:
        stage.create("__consumer_offsets", PARTITIONS)
        stage.delete(stage.create("events"))
        assert list(stage.shards) == []

    on_stage(story)


def test_a_lost_leadership_closes_the_shard_and_a_new_one_loads_it() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC, isr=(ME, OTHER))
        await stage.write("g")
        first = stage.shards.of("g")
        stage.change(replica, leader=OTHER)
        assert first.is_closed
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR
        stage.change(replica, leader=ME)
        code = refusal(lambda: stage.shards.of("g"))
        assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await stage.settle()
        assert stage.happened == [f"loaded {COUNTERS_TOPIC}-0"]
        second = stage.shards.of("g")
        assert second is not first
        assert second.machine.count("g") == 1

    on_stage(story)


def test_a_change_of_the_isr_leaves_a_shard_as_it_is() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC, isr=(ME, OTHER))
        first = stage.shards.of("g")
        stage.change(replica, isr=(ME,))
        assert stage.shards.of("g") is first

    on_stage(story)


def test_a_load_during_which_leadership_was_lost_changes_nothing() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC, isr=(ME, OTHER))
        await stage.write("g")
        stage.change(replica, leader=OTHER)
        stage.change(replica, leader=ME)
        stage.change(replica, leader=OTHER)
        await stage.settle()
        assert stage.happened == []
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR

    on_stage(story)


def registered(epoch: int) -> Broker:
    """Another registration of this broker, which was not restarted."""
    return Broker(
        broker_id=ME.broker_id,
        epoch=epoch,
        inherits=None,
        endpoints=(),
        rack=None,
        host="",
        state=BrokerState.UP,
        incarnation_id="me",
    )


def test_a_lost_session_ends_all_shards_until_the_next_registration_leads() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC)
        stage.commit(registered(ME.broker_epoch))
        await stage.add("g")
        stage.replicas.lose_session(ME.broker_epoch)
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR
        assert list(stage.shards) == []
        again = Incarnation(ME.broker_id, ME.broker_epoch + 5)
        stage.commit(registered(again.broker_epoch))
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR
        stage.change(replica, leader=again, isr=(again,))
        await stage.settle()
        assert stage.shards.of("g").machine.count("g") == 1
        assert stage.shards.of("g").leader_epoch == 1

    on_stage(story)


def test_a_shard_that_loads_when_the_session_is_lost_is_not_waited_for() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC, isr=(ME, OTHER))
        await stage.write("g")
        stage.reload(replica)
        code = refusal(lambda: stage.shards.of("g"))
        assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        stage.replicas.lose_session(ME.broker_epoch)
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR
        await stage.settle()
        assert stage.happened == []

    on_stage(story)


def test_a_new_leader_epoch_of_the_same_broker_has_a_new_shard() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC)
        await stage.add("g")
        first = stage.shards.of("g")
        parked = first.ask(lambda _ticket, _now_ms: NOTHING)
        again = Incarnation(ME.broker_id, ME.broker_epoch + 5)
        stage.commit(registered(again.broker_epoch))
        stage.change(replica, leader=again, isr=(again,))
        assert first.is_closed
        assert await refusal_of(parked) == ErrorCode.NOT_COORDINATOR
        await stage.settle()
        second = stage.shards.of("g")
        assert (second.leader_epoch, second.machine.count("g")) == (1, 1)

    on_stage(story)


def test_a_follower_without_a_log_that_becomes_the_leader_begins_with_nothing() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC, isr=(ME, OTHER), leader=OTHER)
        assert replica.log is None
        stage.change(replica, leader=ME, isr=(ME,))
        await stage.add("g")
        assert stage.shards.of("g").machine.count("g") == 1

    on_stage(story)


def test_a_log_that_is_cut_under_a_former_leaders_load_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC, isr=(ME, OTHER))
        await stage.write("g")
        stage.change(replica, leader=OTHER)

        async def load(_: Loader) -> bool:
            stage.change(replica, leader=OTHER)
            raise StorageError("cut off")

        monkeypatch.setattr(Loader, "load", load)
        stage.change(replica, leader=ME)
        await stage.settle()
        assert stage.happened == []

    on_stage(story)


def test_a_shard_whose_decision_could_not_be_written_is_loaded_again() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC)
        await stage.add_and_announce("g")
        first = stage.shards.of("g")
        huge = tuple(Counted("h", 1, note="m" * 30_000) for _ in range(40))
        with pytest.raises(PeerError) as caught:
            await first.write(lambda _: Decision(huge, effects=(Announce("h", 1),)))
        assert caught.value.code == ErrorCode.NOT_COORDINATOR
        assert stage.happened == [f"failed {replica.name}"]
        await stage.settle()
        second = stage.shards.of("g")
        assert second is not first
        assert list(second.machine.counters) == ["g"]
        assert stage.announced == [Announce("g", 1)]

    on_stage(story)


def test_the_shards_of_a_deleted_topic_are_closed() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC, PARTITIONS)
        assert len(list(stage.shards)) == PARTITIONS
        stage.delete(replica)
        assert list(stage.shards) == []
        assert refusal(lambda: stage.shards.of("g")) == ErrorCode.NOT_COORDINATOR

    on_stage(story)


def test_a_restart_keeps_the_counts_and_restarts_the_timers() -> None:
    async def story(stage: Stage) -> None:
        stage.create(COUNTERS_TOPIC, PARTITIONS)
        for key in ("a", "bb", "a"):
            await stage.add_and_announce(key)
        stage.restart_shards()
        stage.shards.start(stage.image)
        await stage.settle()
        assert await stage.add("a") == 3
        async with stage.running():
            await asyncio.sleep(IDLE_MS / 1000 - 1)
            assert [stage.shards.of(key).machine.count(key) for key in ("a", "bb")] == [3, 1]
            await asyncio.sleep(2)
            assert [stage.shards.of(key).machine.count(key) for key in ("a", "bb")] == [0, 0]

    on_stage(story)


def test_a_postponed_timer_is_due_later() -> None:
    async def story(stage: Stage) -> None:
        stage.create(COUNTERS_TOPIC)
        async with stage.running():
            await stage.add("a")
            await asyncio.sleep(IDLE_MS / 2000)
            await stage.add("a")
            await asyncio.sleep(IDLE_MS / 2000 + 1)
            assert stage.shards.of("a").machine.count("a") == 2
            await asyncio.sleep(IDLE_MS / 2000)
            assert stage.shards.of("a").machine.count("a") == 0

    on_stage(story)


# Effects


def test_an_effect_may_lead_to_another_decision_of_its_shard() -> None:
    async def story(stage: Stage) -> None:
        stage.create(COUNTERS_TOPIC)
        assert await asyncio.gather(stage.add("a"), stage.add("a"), stage.add("b")) == [1, 2, 1]
        await asyncio.sleep(0)
        assert stage.announced == [Announce("a", 1), Announce("a", 2), Announce("b", 1)]
        counters = stage.shards.of("a").machine.counters
        assert counters == {
            "a": Counted("a", 2, is_announced=True),
            "b": Counted("b", 1, is_announced=True),
        }

    on_stage(story)


def test_effects_are_repeated_after_a_load_if_the_machine_decides_so() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC, isr=(ME, OTHER))
        stage.change(replica, isr=(ME,))
        await stage.add_and_announce("heard")
        stage.is_heard = False
        await stage.add_and_announce("unheard")
        stage.announced.clear()
        stage.is_heard = True
        stage.reload(replica)
        await stage.settle()
        await asyncio.sleep(0)
        assert stage.announced == [Announce("unheard", 1)]
        stage.announced.clear()
        stage.reload(replica)
        await stage.settle()
        await asyncio.sleep(0)
        assert stage.announced == []

    on_stage(story)


def test_effects_of_a_load_wait_for_the_high_watermark_too() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC, isr=(ME, OTHER))
        await stage.write("a")
        stage.reload(replica)
        await stage.settle()
        await asyncio.sleep(1)
        assert stage.announced == []
        stage.change(replica, isr=(ME,))
        await asyncio.sleep(0)
        assert stage.announced == [Announce("a", 1)]

    on_stage(story)


def test_no_effect_is_performed_if_leadership_ends_before_the_commit() -> None:
    async def story(stage: Stage) -> None:
        replica = stage.create(COUNTERS_TOPIC, isr=(ME, OTHER))
        adding = stage.add("a")
        await asyncio.sleep(1)
        stage.change(replica, leader=OTHER)
        with pytest.raises(PeerError) as caught:
            await adding
        assert caught.value.code == ErrorCode.NOT_COORDINATOR
        await asyncio.sleep(1)
        assert stage.announced == []

    on_stage(story)
