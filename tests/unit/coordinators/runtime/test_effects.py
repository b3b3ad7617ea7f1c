"""Effects of decisions: performed once, in order, and only if nothing of them can be lost."""

import asyncio
import errno
from unittest.mock import Mock

import pytest

from ottla.coordinators.runtime.decision import NOTHING, Decision
from ottla.errors import ErrorCode, LogOffline
from ottla.storage.log.leader_epoch_file import NoRoomForEpochs
from tests.support.coordinators.shard_stage import refusal_of
from tests.support.replication.partitions import ME, OTHER
from tests.unit.coordinators.runtime.test_shard import (
    COMMIT_TIMEOUT_MS,
    Stage,
    ask,
    counted,
    doing,
    on_stage,
    written,
)


def test_effects_are_performed_in_order_once_their_records_are_committed() -> None:
    async def story(stage: Stage) -> None:
        asking = [
            ask(stage.shard, doing("first", "second", records=(counted(1),))),
            ask(stage.shard, doing("third", records=(counted(2),))),
            # It may have seen what the others decided.
            ask(stage.shard, doing("fourth")),
        ]
        gathered = asyncio.gather(*asking)
        await asyncio.sleep(1)
        assert stage.replica.end_offset == 2
        assert stage.performed == []
        stage.partitions.change(stage.replica, isr=(ME,))
        await gathered
        assert stage.performed == ["first", "second", "third", "fourth"]
        await asyncio.sleep(1)
        assert len(stage.performed) == 4

    on_stage(story, isr=(ME, OTHER))


class Moments:
    """The effects performed when an answer is given, and one turn of the loop later."""

    def __init__(self, stage: Stage) -> None:
        self.at_answer: list[str] | None = None
        self.next_turn: list[str] | None = None
        self._stage = stage

    def answered(self, _answer: object) -> None:
        self.at_answer = list(self._stage.performed)
        asyncio.get_running_loop().call_soon(self._look_again)

    def _look_again(self) -> None:
        self.next_turn = list(self._stage.performed)


def test_effects_are_performed_right_after_the_answer_and_before_the_client_can_ask_again() -> None:
    """The loop reads from sockets between two turns, so nothing comes in between."""

    async def story(stage: Stage) -> None:
        moments = Moments(stage)
        with_records = stage.shard.ask(doing("first", records=(counted(1),)))
        with_records.add_done_callback(moments.answered)
        await with_records
        await written()
        assert (moments.at_answer, moments.next_turn) == ([], ["first"])
        without_records = stage.shard.ask(doing("second"))
        assert without_records.done()
        assert stage.performed == ["first"]
        await asyncio.sleep(0)
        assert stage.performed == ["first", "second"]

    on_stage(story)


def test_answers_come_before_effects_also_if_both_waited_for_the_commit() -> None:
    async def story(stage: Stage) -> None:
        moments = Moments(stage)
        asking = stage.shard.ask(doing("first", records=(counted(1),)))
        asking.add_done_callback(moments.answered)
        await written()
        assert moments.at_answer is None
        stage.partitions.change(stage.replica, isr=(ME,))
        await written()
        assert (moments.at_answer, moments.next_turn) == ([], ["first"])

    on_stage(story, isr=(ME, OTHER))


def test_an_effect_waits_for_its_own_records_and_not_for_later_ones() -> None:
    async def story(stage: Stage) -> None:
        stage.shard.apply(lambda _: Decision((counted(1),), effects=("first",)))
        await written()
        stage.shard.apply(lambda _: Decision((counted(2),), effects=("second",)))
        await written()
        for offset, performed in ((1, ["first"]), (2, ["first", "second"])):
            stage.replica.fetched_by(OTHER, offset, 0)
            await written()
            assert stage.performed == performed

    on_stage(story, isr=(ME, OTHER))


def test_an_effect_waits_for_the_commit_longer_than_those_who_asked() -> None:
    async def story(stage: Stage) -> None:
        asking = asyncio.create_task(ask(stage.shard, doing("late", records=(counted(1),))))
        await written()
        assert stage.shard.expire(stage.steady_ms() + COMMIT_TIMEOUT_MS)
        assert await refusal_of(asking) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert stage.performed == []
        stage.partitions.change(stage.replica, isr=(ME,))
        await written()
        assert stage.performed == ["late"]

    on_stage(story, isr=(ME, OTHER))


def test_no_effect_is_performed_if_the_append_fails() -> None:
    async def story(stage: Stage) -> None:
        await ask(stage.shard, doing("before", records=(counted(1),)))
        assert stage.replica.log is not None
        stage.replica.log.abandon()
        lost = await refusal_of(ask(stage.shard, doing("lost", records=(counted(2),))))
        assert lost == ErrorCode.NOT_COORDINATOR
        await written()
        assert stage.performed == ["before"]

    on_stage(story)


def test_no_effect_is_performed_if_the_shard_is_closed_before_the_commit() -> None:
    async def story(stage: Stage) -> None:
        asking = asyncio.create_task(ask(stage.shard, doing("lost", records=(counted(1),))))
        await written()
        stage.shard.close()
        stage.partitions.change(stage.replica, isr=(ME,))
        assert await refusal_of(asking) == ErrorCode.NOT_COORDINATOR
        await written()
        assert stage.performed == []

    on_stage(story, isr=(ME, OTHER))


def test_no_effect_is_performed_by_a_shard_that_is_closed() -> None:
    async def story(stage: Stage) -> None:
        asking = stage.shard.ask(doing("lost", records=(counted(1),)))
        # It is committed in this turn, and would be performed in the next.
        stage.shard.append_turn()
        assert asking.done()
        stage.shard.close()
        await written()
        assert stage.performed == []

    on_stage(story)


def test_effects_that_follow_from_a_load_are_performed_once_the_shard_takes_requests() -> None:
    async def story(stage: Stage) -> None:
        stage.shard.machine.follows = [Decision(effects=("first",)), Decision(effects=("second",))]
        for _ in stage.shard.loaded():
            await written()
            assert stage.performed == []
        await written()
        assert stage.performed == ["first", "second"]

    on_stage(story, is_loaded=False)


def test_no_effect_is_performed_if_leadership_is_lost_before_the_commit() -> None:
    async def story(stage: Stage) -> None:
        asking = asyncio.create_task(ask(stage.shard, doing("lost", records=(counted(1),))))
        await written()
        # Nobody has closed the shard yet, and another epoch of this broker commits the record.
        stage.partitions.change(stage.replica, leader=OTHER)
        stage.partitions.change(stage.replica, leader=ME, isr=(ME,))
        await written()
        assert stage.replica.high_watermark == 1
        assert stage.performed == []
        stage.shard.close()
        await asyncio.gather(asking, return_exceptions=True)

    on_stage(story, isr=(ME, OTHER))


def test_an_effect_that_cannot_be_started_is_our_own_fault() -> None:
    fault = ValueError("not ours to answer")

    def refuse(_effect: str) -> None:
        raise fault

    async def story(stage: Stage) -> None:
        faults: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context.get("exception")))
        stage.shard._perform = refuse
        waiting = asyncio.create_task(ask(stage.shard, lambda _ticket, _now_ms: NOTHING))
        await asyncio.sleep(0)
        stage.shard.apply(lambda _: Decision(effects=("fails",)))
        with pytest.raises(ValueError, match="not ours to answer"):
            await waiting
        assert faults == [fault]

    on_stage(story)


def test_effects_wait_for_the_flush_that_flush_messages_asks_for() -> None:
    """Otherwise an effect could outlive a power loss that its decision does not."""

    async def story(stage: Stage) -> None:
        await ask(stage.shard, doing(records=(counted(1),)))
        log = stage.replica.log
        assert log is not None
        log.flush_messages = 2
        flushed_at: dict[str, int] = {}
        perform = stage.shard._perform

        def watch(effect: str) -> None:
            flushed_at[effect] = log.recovery_point
            perform(effect)

        stage.shard._perform = watch
        await ask(stage.shard, doing("first", records=(counted(2),)))
        stage.shard.apply(lambda _: Decision((counted(3),), effects=("second",)))
        await asyncio.sleep(1)
        assert stage.performed == ["first", "second"]
        assert flushed_at["first"] == 2
        assert flushed_at["second"] in (2, 3)

    on_stage(story)


def test_effects_of_a_log_that_cannot_be_flushed_are_not_performed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail = Mock(side_effect=LogOffline("broken"))

    async def story(stage: Stage) -> None:
        await ask(stage.shard, doing(records=(counted(1),)))
        log = stage.replica.log
        assert log is not None
        log.flush_messages = 1
        monkeypatch.setattr(log, "begin_flush", fail)
        stage.shard.apply(lambda _: Decision((counted(2),), effects=("first",)))
        await asyncio.sleep(10)
        assert stage.performed == []
        assert all(task.done() for task in stage.tasks)

    on_stage(story)


def test_effects_are_performed_once_a_full_disk_has_room_for_the_flush(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else may ever happen to the shard."""
    full = NoRoomForEpochs(errno.ENOSPC, "full")

    async def story(stage: Stage) -> None:
        await ask(stage.shard, doing(records=(counted(1),)))
        log = stage.replica.log
        assert log is not None
        log.flush_messages = 1
        with monkeypatch.context() as patch:
            patch.setattr(log, "begin_flush", Mock(side_effect=full))
            stage.shard.apply(lambda _: Decision((counted(2),), effects=("first",)))
            await asyncio.sleep(10)
            assert stage.performed == []
        await asyncio.sleep(10)
        assert stage.performed == ["first"]
        assert log.recovery_point == 2

    on_stage(story)


def test_a_shard_that_is_closed_gives_up_the_flush_of_a_full_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = NoRoomForEpochs(errno.ENOSPC, "full")

    async def story(stage: Stage) -> None:
        await ask(stage.shard, doing(records=(counted(1),)))
        log = stage.replica.log
        assert log is not None
        log.flush_messages = 1
        monkeypatch.setattr(log, "begin_flush", Mock(side_effect=full))
        stage.shard.apply(lambda _: Decision((counted(2),), effects=("first",)))
        await asyncio.sleep(1)
        stage.shard.close()
        await asyncio.sleep(10)
        # Every task that a shard starts is the broker's to end.
        assert [task.done() for task in stage.tasks] == [True]
        assert stage.performed == []

    on_stage(story)
