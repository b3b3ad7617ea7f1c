"""Records of transactions: appended at once, pending until their marker, and loaded that way."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any

import pytest

from ottla.coordinators.runtime.decision import Answered, Decision, TimerSet
from ottla.errors import ErrorCode
from ottla.protocol import batch
from ottla.protocol.batch import BatchHeader, MarkerKind
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.replication.append.transaction_marker import TransactionMarker
from tests.support.coordinators.counters import Counted, encode
from tests.support.coordinators.shard_stage import refusal, refusal_of
from tests.support.replication.partitions import ME, OTHER
from tests.unit.coordinators.runtime.test_shard import (
    Stage,
    ask,
    counted,
    on_stage,
    saying,
    written,
)

PRODUCER = ProducerIdAndEpoch(9, 4)
FENCED = ProducerIdAndEpoch(9, 3)
COMMIT, ABORT = MarkerKind.COMMIT, MarkerKind.ABORT


def marker(
    kind: MarkerKind = COMMIT, producer: ProducerIdAndEpoch = PRODUCER, coordinator_epoch: int = 0
) -> TransactionMarker:
    return TransactionMarker(*producer, kind, coordinator_epoch)


def pending(
    *records: Counted, producer: ProducerIdAndEpoch = PRODUCER
) -> Callable[[Hashable, int], Decision[Counted, str]]:
    return lambda ticket, _: Decision(
        records,
        (Answered(ticket, "done"),),
        (TimerSet("due", 1),),
        ("effect",),
        transaction=producer,
    )


def headers(stage: Stage) -> list[BatchHeader]:
    log = stage.replica.log
    assert log is not None
    piece = log.read(0, bytes_max=1 << 30)
    assert piece is not None
    content, position, found = piece.read(), 0, []
    while position < len(content):
        header = batch.read_header(content, position)
        found.append(header)
        position += header.size
    return found


def test_records_of_a_transaction_are_appended_at_once_behind_the_turn_so_far() -> None:
    async def story(stage: Stage) -> None:
        before = stage.shard.ask(saying("before", counted(1)))
        within = stage.shard.ask(pending(counted(2), counted(3)))
        assert stage.replica.end_offset == 3
        after = stage.shard.ask(saying("after", counted(4)))
        assert await asyncio.gather(before, within, after) == ["before", "done", "after"]
        plain, transactional, last = headers(stage)
        assert (plain.count, transactional.count, last.count) == (1, 2, 1)
        assert transactional.is_transactional
        assert (transactional.producer_id, transactional.producer_epoch) == PRODUCER
        # As Kafka's group coordinator writes it.
        assert transactional.base_sequence == 0
        assert [each.is_transactional for each in (plain, last)] == [False, False]
        assert (plain.producer_id, last.producer_id) == (-1, -1)
        machine = stage.shard.machine
        assert machine.replayed == [counted(1), counted(4)]
        assert machine.pending == [(9, counted(2)), (9, counted(3))]

    on_stage(story)


def test_a_transaction_may_have_many_batches_which_all_have_sequence_0() -> None:
    async def story(stage: Stage) -> None:
        for number in range(3):
            assert await ask(stage.shard, pending(counted(number))) == "done"
        assert [header.base_sequence for header in headers(stage)] == [0, 0, 0]
        assert len(stage.shard.machine.pending) == 3

    on_stage(story)


def test_a_batch_of_a_fenced_producer_is_refused_alone_and_the_shard_stays() -> None:
    async def story(stage: Stage) -> None:
        await ask(stage.shard, pending(counted(1)))
        before = stage.shard.ask(saying("before", counted(2)))
        refused = refusal(lambda: stage.shard.ask(pending(counted(3), producer=FENCED)))
        assert refused == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await before == "before"
        assert (stage.failures, stage.shard.is_closed) == ([], False)
        assert stage.replica.end_offset == 2
        assert stage.shard.machine.pending == [(9, counted(1))]
        await written()
        # No timer and no effect of the refused decision either.
        assert stage.performed == ["effect"]
        assert await ask(stage.shard, saying("after", counted(4))) == "after"

    on_stage(story)


def test_timers_of_a_refused_decision_are_not_set() -> None:
    async def story(stage: Stage) -> None:
        stage.shard.append_marker(marker())
        refusal(lambda: stage.shard.ask(pending(counted(3), producer=FENCED)))
        assert len(stage.shard.timers) == 0
        await ask(stage.shard, pending(counted(3)))
        assert len(stage.shard.timers) == 1

    on_stage(story)


def test_a_failed_disk_closes_the_shard() -> None:
    async def story(stage: Stage) -> None:
        await ask(stage.shard, pending(counted(1)))
        assert stage.replica.log is not None
        stage.replica.log.abandon()
        code = await refusal_of(ask(stage.shard, pending(counted(2))))
        assert code == ErrorCode.NOT_COORDINATOR
        assert stage.shard.is_closed
        assert [error.code for error in stage.failures] == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert stage.shard.machine.pending == [(9, counted(1))]

    on_stage(story)


def test_a_transactional_decision_larger_than_a_batch_is_refused() -> None:
    async def story(stage: Stage) -> None:
        large = [Counted(f"g-{number}", 1, note="m" * 30_000) for number in range(40)]
        code = await refusal_of(ask(stage.shard, pending(*large)))
        assert code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert (stage.replica.end_offset, stage.shard.machine.pending) == (0, [])
        assert not stage.shard.is_closed

    on_stage(story)


def test_the_answer_and_reads_wait_for_the_commit_of_transactional_records() -> None:
    async def story(stage: Stage) -> None:
        asking = asyncio.create_task(ask(stage.shard, pending(counted(1))))
        reading = asyncio.create_task(stage.shard.read(lambda _: "seen"))
        await asyncio.sleep(1)
        assert [each.done() for each in (asking, reading)] == [False, False]
        stage.partitions.change(stage.replica, isr=(ME,))
        assert (await asking, await reading) == ("done", "seen")

    on_stage(story, isr=(ME, OTHER))


# Markers


def test_a_marker_follows_the_turn_so_far_and_is_replayed() -> None:
    async def story(stage: Stage) -> None:
        await ask(stage.shard, pending(counted(1)))
        before = stage.shard.ask(saying("before", counted(2)))
        appended = stage.shard.append_marker(marker(ABORT))
        assert (appended.first_offset, appended.committed_offset) == (2, 3)
        assert await before == "before"
        assert [header.is_control for header in headers(stage)] == [False, False, True]
        assert stage.shard.machine.ended == [(9, ABORT)]
        assert stage.replica.last_stable_offset == 3

    on_stage(story)


def test_a_read_waits_for_the_commit_of_a_marker() -> None:
    async def story(stage: Stage) -> None:
        appended = stage.shard.append_marker(marker())
        reading = asyncio.create_task(stage.shard.read(lambda _: "seen"))
        await asyncio.sleep(1)
        assert (reading.done(), appended.is_settled) == (False, False)
        stage.partitions.change(stage.replica, isr=(ME,))
        assert await reading == "seen"

    on_stage(story, isr=(ME, OTHER))


def test_a_refused_marker_changes_nothing() -> None:
    async def story(stage: Stage) -> None:
        await ask(stage.shard, pending(counted(1)))
        code = refusal(lambda: stage.shard.append_marker(marker(producer=FENCED)))
        assert code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (stage.shard.machine.ended, stage.replica.end_offset) == ([], 1)
        assert not stage.shard.is_closed
        stage.shard.append_marker(marker(coordinator_epoch=7))
        late = refusal(lambda: stage.shard.append_marker(marker(coordinator_epoch=6)))
        assert late == ErrorCode.TRANSACTION_COORDINATOR_FENCED

    on_stage(story)


def test_no_marker_is_appended_while_the_shard_is_loading_or_closed() -> None:
    async def story(stage: Stage) -> None:
        loading = refusal(lambda: stage.shard.append_marker(marker()))
        assert loading == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        stage.shard.close()
        closed = refusal(lambda: stage.shard.append_marker(marker()))
        assert closed == ErrorCode.NOT_COORDINATOR
        assert stage.replica.end_offset == 0

    on_stage(story, is_loaded=False)


def test_no_marker_is_appended_if_the_turn_before_it_fails() -> None:
    async def story(stage: Stage) -> None:
        await ask(stage.shard, pending(counted(1)))
        before = stage.shard.ask(saying("lost", counted(2)))
        assert stage.replica.log is not None
        stage.replica.log.abandon()
        refused = refusal(lambda: stage.shard.append_marker(marker()))
        assert refused == ErrorCode.NOT_COORDINATOR
        assert await refusal_of(before) == ErrorCode.NOT_COORDINATOR
        assert stage.shard.machine.ended == []

    on_stage(story)


def test_a_disk_below_its_reserve_does_not_stop_a_marker() -> None:
    async def story(stage: Stage) -> None:
        await ask(stage.shard, pending(counted(1)))
        stage.partitions.replicas.directories.full["/data"] = "the disk is full"
        code = await refusal_of(ask(stage.shard, pending(counted(2))))
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        stage.shard.append_marker(marker())
        assert stage.shard.machine.ended == [(9, COMMIT)]

    on_stage(story)


# Loading


def append(stage: Stage, *records: Counted, producer_id: int | None = None) -> None:
    """Appends a batch, of a transaction if a producer id is given."""
    rows = [batch.Record(number, 0, *encode(record)) for number, record in enumerate(records)]
    fields: dict[str, Any] = {}
    if producer_id is not None:
        fields = {"producer_id": producer_id, "producer_epoch": 0, "transactional": True}
    content = memoryview(batch.build(rows, base_sequence=0, **fields))
    stage.partitions.appender.append(
        stage.replica,
        content,
        acks=1,
        transactional_id_given=True,
        now_ms=0,
        is_own=True,
    )


def end(stage: Stage, kind: MarkerKind, producer_id: int = 9) -> None:
    stage.partitions.end_transaction(stage.replica, kind, producer_id)


async def machine_after(stage: Stage) -> tuple[list[Counted], list[tuple[int, Counted]]]:
    machine = (await stage.loaded()).machine
    return machine.replayed, machine.pending


@pytest.mark.parametrize(
    ("kind", "replayed", "is_pending"),
    [(COMMIT, [counted(1)], False), (ABORT, [], False), (None, [], True)],
)
def test_a_load_replays_the_records_of_a_transaction_by_its_marker(
    kind: MarkerKind | None, replayed: list[Counted], is_pending: bool
) -> None:
    async def story(stage: Stage) -> None:
        append(stage, counted(1), producer_id=9)
        if kind is not None:
            end(stage, kind)
        assert await machine_after(stage) == (replayed, [(9, counted(1))] if is_pending else [])

    on_stage(story)


def test_a_committed_record_does_not_beat_a_later_one_that_was_written_before_its_marker() -> None:
    async def story(stage: Stage) -> None:
        append(stage, counted(1), Counted("h", 1), producer_id=9)
        append(stage, counted(2))
        end(stage, COMMIT)
        assert await machine_after(stage) == ([counted(2), Counted("h", 1)], [])

    on_stage(story)


def test_the_later_of_two_committed_records_counts_in_whatever_order_their_markers_come() -> None:
    async def story(stage: Stage) -> None:
        append(stage, counted(1), producer_id=9)
        append(stage, counted(2), producer_id=10)
        end(stage, COMMIT, 10)
        end(stage, COMMIT, 9)
        assert await machine_after(stage) == ([counted(2)], [])

    on_stage(story)


def test_a_transaction_that_follows_an_ended_one_of_its_producer_is_open() -> None:
    async def story(stage: Stage) -> None:
        append(stage, counted(1), producer_id=9)
        end(stage, COMMIT)
        append(stage, counted(2), producer_id=9)
        assert await machine_after(stage) == ([counted(1)], [(9, counted(2))])

    on_stage(story)


class OrderedCalls:
    """Both kinds of replay, in order."""

    def __init__(self, stage: Stage) -> None:
        self.calls: list[Counted] = []
        begin = stage.begin

        def begin_and_watch() -> Any:
            shard = begin()
            shard.machine.replay = self.calls.append  # type: ignore[method-assign]
            shard.machine.replay_pending = (  # type: ignore[method-assign]
                lambda record, _: self.calls.append(record)
            )
            return shard

        stage.begin = begin_and_watch  # type: ignore[method-assign]


def test_pending_records_come_in_the_order_of_offsets_among_the_others_of_their_key() -> None:
    async def story(stage: Stage) -> None:
        append(stage, counted(1), producer_id=9)
        append(stage, counted(2), producer_id=10)
        append(stage, counted(3))
        append(stage, counted(4), producer_id=11)
        append(stage, counted(5), producer_id=9)
        watched = OrderedCalls(stage)
        await stage.loaded()
        assert watched.calls == [counted(count) for count in range(1, 6)]

    on_stage(story)


def test_a_tombstone_behind_a_pending_record_is_replayed_although_a_later_record_follows() -> None:
    async def story(stage: Stage) -> None:
        gone = Counted("g", None)
        append(stage, Counted("h", 1), producer_id=9)
        append(stage, counted(1), producer_id=10)
        append(stage, gone)
        end(stage, COMMIT, 9)
        append(stage, counted(2), producer_id=11)
        append(stage, counted(3))
        watched = OrderedCalls(stage)
        await stage.loaded()
        assert watched.calls == [counted(1), gone, counted(2), Counted("h", 1), counted(3)]

    on_stage(story)


def test_a_tombstone_without_pending_records_is_replayed_only_if_it_is_the_last_record() -> None:
    async def story(stage: Stage) -> None:
        append(stage, Counted("h", 1), producer_id=9)
        append(stage, counted(1), producer_id=10)
        append(stage, Counted("g", None))
        append(stage, Counted("i", None))
        append(stage, counted(2))
        append(stage, Counted("i", 2))
        end(stage, ABORT, 10)
        watched = OrderedCalls(stage)
        await stage.loaded()
        assert watched.calls == [counted(2), Counted("i", 2), Counted("h", 1)]

    on_stage(story)


def test_unreadable_pending_records_are_skipped_and_reported() -> None:
    async def story(stage: Stage) -> None:
        rows = [
            batch.Record(0, 0, encode(Counted("h", None))[0], b"\x7f\xff"),
            batch.Record(1, 0, b"\x00\x63unknown", b"y"),
            batch.Record(2, 0, *encode(counted(7))),
        ]
        content = batch.build(
            rows, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True
        )
        stage.partitions.appender.append(
            stage.replica,
            memoryview(content),
            acks=1,
            transactional_id_given=True,
            now_ms=0,
            is_own=True,
        )
        machine = (await stage.loaded()).machine
        assert machine.pending == [(9, counted(7))]
        assert machine.due == ["skipped 0"]

    on_stage(story)
