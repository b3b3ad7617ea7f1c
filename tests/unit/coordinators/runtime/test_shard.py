"""A shard answers, reads and performs effects only after its decisions are committed."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ottla.coordinators.runtime.decision import NOTHING, Answered, Decision, TimerSet
from ottla.coordinators.runtime.loading import Loader
from ottla.coordinators.runtime.shard import RETRY_MS, Shard
from ottla.errors import ErrorCode, PeerError
from ottla.protocol import batch
from ottla.protocol.batch import MarkerKind
from ottla.replication.append.appender import Appender
from ottla.replication.append.flusher import Flusher
from ottla.replication.replica import Replica, TopicRules
from ottla.storage.log.config import LogConfig
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.threads import SimThreads
from tests.support.coordinators.counters import Counted, decode, encode
from tests.support.coordinators.shard_stage import refusal_of
from tests.support.replication.partitions import ME, OTHER, RULES, Partitions

COMMIT_TIMEOUT_MS = 5_000
DECISION_BYTES_MAX = 1 << 20


class Remembering:
    """A state machine that records its calls."""

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    def __init__(self) -> None:
        self.replayed: list[Counted] = []
        # Records of open transactions and markers, each with its producer id.
        self.pending: list[tuple[int, Counted]] = []
        self.ended: list[tuple[int, MarkerKind]] = []
        self.due: list[str] = []
        self.follows: list[Decision[Counted, str]] = [NOTHING]

    def replay(self, record: Counted) -> None:
        self.replayed.append(record)

    def replay_pending(self, record: Counted, producer_id: int) -> None:
        self.pending.append((producer_id, record))

    def replay_marker(self, producer_id: int, kind: MarkerKind) -> None:
        self.ended.append((producer_id, kind))

    def loaded(self, now_ms: int) -> Iterator[Decision[Counted, str]]:
        yield from self.follows

    def timer_expired(self, timer_key: str, now_ms: int) -> Decision[Counted, str]:
        self.due.append(timer_key)
        return NOTHING


class Stage:
    """One shard and its partition."""

    def __init__(
        self, *, isr: tuple[Any, ...] = (ME,), min_isr: int = 1, rules: TopicRules = RULES
    ) -> None:
        self.partitions = Partitions(rules)
        self.replica = self.partitions.create(isr=isr, min_isr=min_isr)
        self.failures: list[PeerError] = []
        self.performed: list[str] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.shard = self.begin()

    def begin(self) -> Shard[Remembering, str]:
        return Shard(
            self.replica,
            Remembering(),
            self.partitions.appender,
            Flusher(SimThreads(SimEntropy())),
            self.partitions.clock,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
            decision_bytes_max=DECISION_BYTES_MAX,
            perform=self.performed.append,
            schedule=lambda _due_ms: None,
            on_failed=lambda _, error: self.failures.append(error),
            spawn=self._spawn,
        )

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        self.tasks.append(asyncio.create_task(work, name=name))

    async def loaded(self) -> Shard[Remembering, str]:
        """Another shard, loaded from the log of the first one."""
        shard = self.begin()
        skipped: list[int] = []
        threads = SimThreads(SimEntropy())
        loader = Loader(
            shard, self.partitions.clock, threads, lambda offset, _: skipped.append(offset)
        )
        assert await loader.load()
        shard.machine.due += [f"skipped {offset}" for offset in skipped]
        return shard

    def steady_ms(self) -> int:
        return self.partitions.clock.steady_ns() // 1_000_000


def on_stage(
    story: Callable[[Stage], Coroutine[Any, Any, None]], is_loaded: bool = True, **kinds: Any
) -> None:
    stage = Stage(**kinds)

    async def tell() -> None:
        if is_loaded:
            for _ in stage.shard.loaded():
                pass
        await story(stage)

    run(tell(), clock=stage.partitions.clock)


def counted(count: int) -> Counted:
    return Counted("g", count)


def saying(
    response: object, *records: Counted
) -> Callable[[Hashable, int], Decision[Counted, str]]:
    return lambda ticket, _: Decision(records, (Answered(ticket, response),))


def doing(*effects: str, records: tuple[Counted, ...] = ()) -> Callable[[Hashable, int], Any]:
    return lambda ticket, _: Decision(records, (Answered(ticket, "done"),), effects=effects)


async def written() -> None:
    """The next turn of the loop writes the decisions of this one."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def ask(shard: Shard[Remembering, str], decide: Any) -> object:
    """Asks the shard only when it is awaited."""
    return await shard.ask(decide)


def test_a_decision_is_logged_and_replayed_before_it_is_answered() -> None:
    async def story(stage: Stage) -> None:
        assert await ask(stage.shard, saying("done", counted(1), counted(2))) == "done"
        assert stage.shard.machine.replayed == [counted(1), counted(2)]
        assert stage.replica.end_offset == 2
        again = await stage.loaded()
        assert again.machine.replayed == [counted(2)]

    on_stage(story)


def batches(stage: Stage) -> list[int]:
    """How many records each batch of the log has."""
    log = stage.replica.log
    assert log is not None
    piece = log.read(0, bytes_max=1 << 30)
    assert piece is not None
    content, position, counts = piece.read(), 0, []
    while position < len(content):
        header = batch.read_header(content, position)
        counts.append(header.count)
        position += header.size
    return counts


def test_the_decisions_of_one_turn_are_one_batch() -> None:
    async def story(stage: Stage) -> None:
        asking = [ask(stage.shard, saying(number, counted(number))) for number in range(3)]
        assert await asyncio.gather(*asking) == [0, 1, 2]
        await ask(stage.shard, saying("done", counted(3)))
        assert batches(stage) == [3, 1]
        again = await stage.loaded()
        assert again.machine.replayed == [counted(3)]

    on_stage(story)


def test_a_large_turn_is_written_as_several_batches() -> None:
    async def story(stage: Stage) -> None:
        large = [Counted(f"g-{number}", 1, note="m" * 30_000) for number in range(10)]
        asking = [ask(stage.shard, saying("done", record)) for record in large]
        assert await asyncio.gather(*asking) == ["done"] * len(large)
        assert batches(stage) == [8, 2]
        # One decision is still one batch: it is atomic.
        await ask(stage.shard, saying("done", *large))
        assert batches(stage) == [8, 2, 10]

    on_stage(story)


def test_a_decision_larger_than_a_batch_is_refused_and_changes_nothing() -> None:
    async def story(stage: Stage) -> None:
        large = [Counted(f"g-{number}", 1, note="m" * 30_000) for number in range(40)]
        code = await refusal_of(ask(stage.shard, saying("done", *large)))
        assert code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert stage.shard.machine.replayed == []
        assert await ask(stage.shard, saying("done", counted(1))) == "done"
        assert (batches(stage), stage.failures) == ([1], [])

    on_stage(story)


def test_our_own_fault_is_raised_in_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = ValueError("not ours to answer")

    def refuse(*_: object, **__: object) -> None:
        raise fault

    async def story(stage: Stage) -> None:
        faults: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context.get("exception")))
        monkeypatch.setattr(Appender, "append", refuse)
        with pytest.raises(ValueError, match="not ours to answer"):
            await ask(stage.shard, saying("done", counted(1)))
        assert faults == [fault]

    on_stage(story)


def test_append_turn_writes_one_batch_at_once() -> None:
    async def story(stage: Stage) -> None:
        decided = [Decision((counted(offset),)) for offset in range(3)]
        stage.shard.apply_all(lambda _: decided)
        assert stage.replica.end_offset == 0
        assert stage.shard.append_turn().done()
        assert batches(stage) == [3]
        await written()
        assert batches(stage) == [3]

    on_stage(story)


def test_a_decision_sees_the_earlier_ones_of_the_same_apply_all() -> None:
    async def story(stage: Stage) -> None:
        def decide(now_ms: int) -> Iterator[Decision[Counted, str]]:
            for _ in range(3):
                yield Decision((counted(len(stage.shard.machine.replayed)),))

        stage.shard.apply_all(decide)
        await stage.shard.append_turn()
        assert stage.shard.machine.replayed == [counted(0), counted(1), counted(2)]

    on_stage(story)


def test_append_turn_waits_for_the_in_sync_replicas() -> None:
    async def story(stage: Stage) -> None:
        stage.shard.apply_all(lambda _: [Decision((counted(1),))])
        settled = stage.shard.append_turn()
        await written()
        assert stage.replica.end_offset == 1
        assert not settled.done()
        stage.shard.close()
        assert await refusal_of(settled) == ErrorCode.NOT_COORDINATOR

    on_stage(story, isr=(ME, OTHER))


def test_an_answer_waits_for_the_flush_that_flush_messages_asks_for() -> None:
    async def story(stage: Stage) -> None:
        await ask(stage.shard, saying("done", counted(1)))
        log = stage.replica.log
        assert log is not None
        assert log.recovery_point == 0
        log.flush_messages = 2
        await ask(stage.shard, saying("done", counted(2)))
        assert log.recovery_point == 2

    on_stage(story)


def test_the_first_answer_of_a_partition_waits_for_a_flush_as_well() -> None:
    """The log is created by the decision, after it was asked for."""

    async def story(stage: Stage) -> None:
        assert stage.replica.log is None
        await ask(stage.shard, saying("done", counted(1)))
        assert stage.replica.log is not None
        assert stage.replica.log.recovery_point == 1

    on_stage(story, rules=replace(RULES, log=LogConfig(flush_messages=1)))


def test_a_request_that_is_cancelled_before_it_waits_leaves_no_error_behind() -> None:
    async def story(stage: Stage) -> None:
        asking = stage.shard.ask(saying("done", counted(1)))
        asking.cancel()
        await written()
        stage.shard.close()

    # The flush is a task, which is cancelled before its first step. `run` raises what nobody saw.
    on_stage(story, isr=(ME, OTHER), rules=replace(RULES, log=LogConfig(flush_messages=1)))


def test_an_answer_waits_for_the_high_watermark() -> None:
    async def story(stage: Stage) -> None:
        asking = asyncio.create_task(ask(stage.shard, saying("done", counted(1))))
        await asyncio.sleep(1)
        assert stage.shard.machine.replayed == [counted(1)]
        assert not asking.done()
        stage.partitions.change(stage.replica, isr=(ME,))
        assert await asking == "done"

    on_stage(story, isr=(ME, OTHER))


def test_a_read_waits_until_its_state_is_committed() -> None:
    async def story(stage: Stage) -> None:
        asking = asyncio.create_task(ask(stage.shard, saying("done", counted(1))))
        record_type = asyncio.create_task(stage.shard.read(lambda _: "seen"))
        await asyncio.sleep(1)
        assert not record_type.done()
        stage.partitions.change(stage.replica, isr=(ME,))
        assert await record_type == "seen"
        await asking

    on_stage(story, isr=(ME, OTHER))


def refusing(*_: Any) -> Any:
    raise PeerError(ErrorCode.FENCED_INSTANCE_ID, "another came")


def test_a_refusal_waits_until_the_state_that_it_comes_from_is_committed() -> None:
    async def story(stage: Stage) -> None:
        stage.shard.apply(lambda _: Decision((counted(1),)))
        refused = [
            asyncio.create_task(ask(stage.shard, refusing)),
            asyncio.create_task(stage.shard.read(refusing)),
        ]
        await asyncio.sleep(1)
        assert not any(each.done() for each in refused)
        stage.partitions.change(stage.replica, isr=(ME,))
        assert [await refusal_of(each) for each in refused] == [ErrorCode.FENCED_INSTANCE_ID] * 2
        # Nothing is left to wait for.
        with pytest.raises(PeerError):
            stage.shard.ask(refusing)

    on_stage(story, isr=(ME, OTHER))


def test_a_shard_that_was_loaded_beyond_the_high_watermark_waits_with_every_answer() -> None:
    async def story(stage: Stage) -> None:
        stage.shard.apply(lambda _: Decision((counted(1),)))
        await written()
        shard = await stage.loaded()
        assert shard.machine.replayed == [counted(1)]
        assert stage.replica.high_watermark == 0
        waiting = [
            asyncio.create_task(ask(shard, saying("heard"))),
            asyncio.create_task(shard.read(lambda _: "seen")),
            asyncio.create_task(ask(shard, refusing)),
        ]
        await asyncio.sleep(1)
        assert not any(each.done() for each in waiting)
        stage.partitions.change(stage.replica, isr=(ME,))
        assert await waiting[0] == "heard"
        assert await waiting[1] == "seen"
        assert await refusal_of(waiting[2]) == ErrorCode.FENCED_INSTANCE_ID

    on_stage(story, isr=(ME, OTHER))


def test_a_lost_session_closes_the_shard_before_the_metadata_log_says_so() -> None:
    async def story(stage: Stage) -> None:
        parked = asyncio.create_task(ask(stage.shard, lambda _ticket, _now_ms: NOTHING))
        uncommitted = asyncio.create_task(ask(stage.shard, doing("x", records=(counted(1),))))
        await asyncio.sleep(1)
        stage.shard.timers.set("session", stage.steady_ms())
        # A decision of this turn that is not written yet.
        asking = stage.shard.ask(saying("done", counted(2)))
        stage.partitions.replicas.lose_session(ME.broker_epoch)
        for each in (parked, uncommitted, asking):
            assert await refusal_of(each) == ErrorCode.NOT_COORDINATOR
        assert stage.shard.is_closed
        assert stage.shard.next_due_ms is None
        await asyncio.sleep(1)
        assert stage.failures == []
        assert stage.performed == []
        assert stage.replica.end_offset == 1
        assert len(stage.replica.waiting) == 0

    on_stage(story, isr=(ME, OTHER))


def test_a_request_that_waits_too_long_is_told_to_retry() -> None:
    async def story(stage: Stage) -> None:
        asking = asyncio.create_task(ask(stage.shard, saying("done", counted(1))))
        await written()
        assert stage.shard.next_due_ms == stage.steady_ms() + COMMIT_TIMEOUT_MS
        assert not stage.shard.expire(stage.steady_ms())
        assert stage.shard.expire(stage.steady_ms() + COMMIT_TIMEOUT_MS)
        assert await refusal_of(asking) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    on_stage(story, isr=(ME, OTHER))


def test_a_later_decision_may_answer_a_request() -> None:
    async def story(stage: Stage) -> None:
        tickets: list[Hashable] = []

        def wait(ticket: Hashable, _now_ms: int) -> Decision[Counted, str]:
            tickets.append(ticket)
            return NOTHING

        asking = asyncio.create_task(ask(stage.shard, wait))
        await asyncio.sleep(1)
        assert not asking.done()
        stage.shard.apply(lambda _: Decision(answers=(Answered(tickets[0], "at last"),)))
        assert await asking == "at last"
        # No request waits for this ticket any more.
        stage.shard.apply(lambda _: Decision(answers=(Answered(tickets[0], "again"),)))

    on_stage(story)


def test_an_error_as_an_answer_is_raised_in_the_waiting_request() -> None:
    async def story(stage: Stage) -> None:
        fenced = PeerError(ErrorCode.FENCED_INSTANCE_ID, "another came")
        assert await refusal_of(ask(stage.shard, saying(fenced))) == ErrorCode.FENCED_INSTANCE_ID

    on_stage(story)


def test_waiting_requests_are_refused_when_leadership_is_lost() -> None:
    async def story(stage: Stage) -> None:
        asking = asyncio.create_task(ask(stage.shard, lambda _ticket, _now_ms: NOTHING))
        await asyncio.sleep(1)
        stage.partitions.change(stage.replica, leader=OTHER)
        assert await refusal_of(ask(stage.shard, saying("x"))) == ErrorCode.NOT_COORDINATOR
        stage.shard.close()
        assert await refusal_of(asking) == ErrorCode.NOT_COORDINATOR

    on_stage(story, isr=(ME, OTHER))


def test_a_closed_shard_leaves_the_commit_queue() -> None:
    async def story(stage: Stage) -> None:
        asking = asyncio.create_task(ask(stage.shard, saying("done", counted(1))))
        await written()
        assert len(stage.replica.commits) == 1
        stage.shard.close()
        assert len(stage.replica.commits) == 0
        assert await refusal_of(asking) == ErrorCode.NOT_COORDINATOR

    on_stage(story, isr=(ME, OTHER))


def test_decisions_that_an_isr_was_too_small_for_are_answered_when_it_has_grown() -> None:
    """They stand in the log. Nobody can take them back, and a later leader has them too."""

    async def story(stage: Stage) -> None:
        asking = []
        for count in (1, 2):
            asking.append(
                asyncio.create_task(ask(stage.shard, doing(f"{count}", records=(counted(count),))))
            )
            await written()
        stage.partitions.change(stage.replica, isr=(ME,))
        await written()
        assert len(stage.replica.commits) == 2
        stage.partitions.change(stage.replica, isr=(ME, OTHER))
        for offset, performed in ((1, ["1"]), (2, ["1", "2"])):
            stage.replica.fetched_by(OTHER, offset, 0)
            await written()
            assert stage.performed == performed
            assert [each.done() for each in asking] == [True, offset == 2]
        assert len(stage.replica.commits) == 0

    on_stage(story, isr=(ME, OTHER), min_isr=2)


def test_a_shard_waits_once_for_each_batch_and_is_woken_by_no_other_move() -> None:
    async def story(stage: Stage) -> None:
        asking = []
        for turn in range(10):
            for _ in range(10):
                asking.append(stage.shard.ask(saying("done", counted(turn))))
            await written()
        assert len(stage.replica.commits) == 10
        releases = []
        waits = stage.shard._commit_waits
        release = waits._release

        def counted_release() -> None:
            releases.append(1)
            release()

        waits._release = counted_release
        for offset in range(1, 101):
            stage.replica.fetched_by(OTHER, offset, 0)
            assert sum(each.done() for each in asking) == offset // 10 * 10
        assert len(releases) == 10

    on_stage(story, isr=(ME, OTHER))


def test_requests_are_refused_while_the_log_is_replayed() -> None:
    async def story(stage: Stage) -> None:
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await refusal_of(ask(stage.shard, saying("x"))) == code
        assert await refusal_of(stage.shard.read(lambda _: "x")) == code

    on_stage(story, is_loaded=False)


def test_no_decision_is_made_while_the_log_cannot_be_written() -> None:
    async def story(stage: Stage) -> None:
        stage.partitions.replicas.directories.full["/data"] = "the disk is full"
        decided: list[int] = []

        def decide(_ticket: Hashable, now_ms: int) -> Decision[Counted, str]:
            decided.append(now_ms)
            return NOTHING

        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await refusal_of(ask(stage.shard, decide)) == code
        stage.partitions.replicas.directories.full.clear()
        stage.partitions.change(stage.replica, isr=(ME,))
        assert await refusal_of(ask(stage.shard, decide)) == code
        assert decided == []

    on_stage(story, isr=(ME, OTHER), min_isr=2)


def test_a_state_that_is_ahead_of_its_log_is_not_used_again() -> None:
    async def story(stage: Stage) -> None:
        await ask(stage.shard, saying("done", counted(1)))
        waiting = asyncio.create_task(ask(stage.shard, lambda _ticket, _now_ms: NOTHING))
        await asyncio.sleep(0)
        assert stage.replica.log is not None
        stage.replica.log.abandon()
        code = await refusal_of(ask(stage.shard, saying("lost", counted(2))))
        assert code == ErrorCode.NOT_COORDINATOR
        assert stage.shard.is_closed
        assert [error.code for error in stage.failures] == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert await refusal_of(waiting) == ErrorCode.NOT_COORDINATOR

    on_stage(story)


def test_timers_are_due_by_the_steady_clock_whatever_the_wall_clock_does() -> None:
    async def story(stage: Stage) -> None:
        start_ms = stage.steady_ms()
        now_ms = stage.partitions.clock.wall_ms()
        timers = (TimerSet("a", now_ms + 10), TimerSet("b", now_ms + 20))
        stage.shard.apply(lambda _: Decision(timers=timers))
        assert stage.shard.next_due_ms == start_ms + 10
        assert stage.shard.expire(start_ms + 10)
        assert not stage.shard.expire(start_ms + 19)
        stage.shard.apply(lambda _: Decision(timers=(TimerSet("b", None),)))
        assert not stage.shard.expire(start_ms + 99)
        assert stage.shard.machine.due == ["a"]

    on_stage(story)


def test_a_timer_that_cannot_be_handled_is_retried() -> None:
    async def story(stage: Stage) -> None:
        start_ms = stage.steady_ms()
        now_ms = stage.partitions.clock.wall_ms()
        stage.shard.apply(lambda _: Decision(timers=(TimerSet("a", now_ms),)))
        stage.partitions.replicas.directories.full["/data"] = "the disk is full"
        assert stage.shard.expire(start_ms)
        stage.partitions.replicas.directories.full.clear()
        assert not stage.shard.expire(start_ms)
        assert stage.shard.expire(start_ms + RETRY_MS)
        assert stage.shard.machine.due == ["a"]

    on_stage(story)


# Leader epochs


def test_nothing_is_written_if_the_leader_epoch_has_changed_within_the_turn() -> None:
    async def story(stage: Stage) -> None:
        stage.partitions.change(stage.replica, isr=(ME,))
        await ask(stage.shard, saying("done", counted(1)))
        parked = asyncio.create_task(ask(stage.shard, lambda _ticket, _now_ms: NOTHING))
        await asyncio.sleep(0)
        asking = stage.shard.ask(doing("lost", records=(counted(2),)))
        epoch = stage.replica.partition.leader_epoch
        # This broker leads again, and the shard of the older epoch was not told of it.
        stage.replica.waiting.leave(stage.shard)
        stage.partitions.change(stage.replica, leader=OTHER, isr=(ME, OTHER))
        stage.partitions.change(stage.replica, leader=ME, isr=(ME,))
        assert stage.replica.partition.is_leader
        assert stage.replica.partition.leader_epoch == epoch + 2
        assert await refusal_of(asking) == ErrorCode.NOT_COORDINATOR
        assert await refusal_of(parked) == ErrorCode.NOT_COORDINATOR
        assert [error.code for error in stage.failures] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert (stage.replica.end_offset, stage.shard.is_closed) == (1, True)
        assert stage.performed == []
        assert (await stage.loaded()).machine.replayed == [counted(1)]

    on_stage(story, isr=(ME, OTHER))


def test_requests_answered_by_a_decision_larger_than_a_batch_are_refused() -> None:
    async def story(stage: Stage) -> None:
        tickets: list[Hashable] = []

        def wait(ticket: Hashable, _now_ms: int) -> Decision[Counted, str]:
            tickets.append(ticket)
            return NOTHING

        asking = stage.shard.ask(wait)
        large = tuple(Counted(f"g-{number}", 1, note="m" * 30_000) for number in range(40))
        with pytest.raises(PeerError):
            stage.shard.apply(lambda _: Decision(large, (Answered(tickets[0], "done"),)))
        assert await refusal_of(asking) == ErrorCode.UNKNOWN_SERVER_ERROR

    on_stage(story)


# Loading


def appended(stage: Stage, *rows: batch.Record, **fields: Any) -> None:
    content = memoryview(batch.build(rows, **fields))
    stage.partitions.appender.append(
        stage.replica, content, acks=1, transactional_id_given=True, now_ms=0
    )


def test_unreadable_records_are_skipped_and_reported() -> None:
    async def story(stage: Stage) -> None:
        good = encode(counted(7))
        unknown = (b"\x00\x63" + b"x", b"y")
        damaged = (encode(Counted("h", None))[0], b"\x7f\xff")
        rows = [
            batch.Record(offset, 0, key, value)
            for offset, (key, value) in enumerate((unknown, damaged, good))
        ]
        appended(stage, *rows)
        shard = await stage.loaded()
        assert shard.machine.replayed == [counted(7)]
        assert shard.machine.due == ["skipped 1"]

    on_stage(story)


def test_other_tasks_run_while_a_long_log_is_loaded() -> None:
    async def story(stage: Stage) -> None:
        many = [Counted(f"g-{number}", 5) for number in range(3_000)]
        for start in range(0, len(many), 100):
            await ask(stage.shard, saying("done", *many[start : start + 100]))
        assert (await stage.loaded()).machine.replayed == many

    on_stage(story)


def test_a_load_replays_the_last_record_of_each_key() -> None:
    async def story(stage: Stage) -> None:
        first, other = counted(1), Counted("h", 9)
        gone = Counted("h", None)
        for record in (first, other, counted(2), gone, counted(3)):
            await ask(stage.shard, saying("done", record))
        assert (await stage.loaded()).machine.replayed == [gone, counted(3)]

    on_stage(story)


def test_the_load_of_a_closed_shard_ends() -> None:
    async def story(stage: Stage) -> None:
        await ask(stage.shard, saying("done", counted(1)))
        shard = stage.begin()
        shard.close()
        loader = Loader(
            shard, stage.partitions.clock, SimThreads(SimEntropy()), lambda _offset, _error: None
        )
        assert not await loader.load()
        assert shard.machine.replayed == []

    on_stage(story)


def test_a_shard_of_a_replica_without_a_log_is_empty() -> None:
    async def story(stage: Stage) -> None:
        replica: Replica = stage.replica
        assert replica.log is None
        assert (await stage.loaded()).machine.replayed == []

    on_stage(story)
