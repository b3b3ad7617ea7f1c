"""Markers are written until all of them are, and only then is a transaction complete."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from types import SimpleNamespace
from typing import Any, cast

from ottla.coordinators.txn.decision import WriteMarkers
from ottla.coordinators.txn.marker_writer import RETRY_MS_MAX, MarkerWriter
from ottla.coordinators.txn.partition_leaders import Codes
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metrics.meters import TransactionMeter
from ottla.protocol.batch import MarkerKind
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.transaction_marker import TransactionMarker
from tests.sim.seams.loop import run

T0, T1, GONE = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)
EFFECT = WriteMarkers("id", 7, 3, MarkerKind.COMMIT, 2, frozenset({T0, T1}))
NONE, LATER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


class FakeShard:
    """A shard of the coordinator, which may refuse to record the end of a transaction."""

    def __init__(self) -> None:
        self.leader_epoch = 5
        self.is_closed = False
        self.refusals = 0
        self.completed: list[WriteMarkers] = []
        self.machine = SimpleNamespace(markers_written=self._markers_written)

    def _markers_written(self, effect: WriteMarkers, now_ms: int) -> None:
        self.completed.append(effect)

    def apply(self, decide: Callable[[int], Any]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not now")
        decide(0)


class FakeLeaders:
    """Leaders of partitions, with a queue of codes for each; then they write."""

    def __init__(self, *, is_remote: bool = False) -> None:
        self.is_remote = is_remote
        self.codes: dict[TopicPartition, list[ErrorCode]] = {}
        self.asked: list[tuple[TransactionMarker, list[TopicPartition]]] = []

    def write(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartition]
    ) -> Codes | Awaitable[Codes]:
        names = list(partitions)
        self.asked.append((marker, names))
        codes = {name: self._next(name) for name in names}
        return self._later(codes) if self.is_remote else codes

    def _next(self, name: TopicPartition) -> ErrorCode:
        coming = self.codes.get(name)
        return coming.pop(0) if coming else NONE

    async def _later(self, codes: Codes) -> Codes:
        await asyncio.sleep(0.01)
        return codes


class FakeImage:
    def has_partition(self, topic: str, index: int) -> bool:
        return topic != "gone"


class Stage:
    def __init__(self, *, is_remote: bool = False) -> None:
        self.shard = FakeShard()
        self.leaders = FakeLeaders(is_remote=is_remote)
        self.meter = TransactionMeter()
        self.refused: list[tuple[TopicPartition, ErrorCode]] = []
        self.delayed: list[TopicPartition | None] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.writer = MarkerWriter(
            self.leaders,
            lambda _: cast(Any, self.shard),
            lambda: cast(Image, FakeImage()),
            self._spawn,
            self.meter,
            lambda name, _, code: self.refused.append((name, code)),
            lambda name, _: self.delayed.append(name),
        )

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        self.tasks.append(asyncio.create_task(work, name=name))

    async def settle(self) -> None:
        await asyncio.gather(*self.tasks)


def test_markers_of_this_broker_are_written_and_recorded_at_once() -> None:
    async def story() -> None:
        stage = Stage()
        stage.writer.perform(EFFECT)
        assert stage.leaders.asked == [(TransactionMarker(7, 3, MarkerKind.COMMIT, 5, 2), [T0, T1])]
        assert stage.shard.completed == [EFFECT]
        assert not stage.tasks
        assert stage.meter.markers == 2

    run(story())


def test_only_missing_markers_are_tried_again() -> None:
    async def story() -> None:
        stage = Stage()
        stage.leaders.codes[T1] = [LATER, LATER]
        stage.writer.perform(EFFECT)
        assert stage.shard.completed == []
        assert stage.meter.unfinished == 0
        await asyncio.sleep(0.01)
        assert stage.meter.unfinished == 1
        await stage.settle()
        assert [names for _, names in stage.leaders.asked] == [[T0, T1], [T1], [T1]]
        assert stage.shard.completed == [EFFECT]
        assert (stage.meter.unfinished, stage.meter.markers, stage.meter.marker_retries) == (
            0,
            2,
            2,
        )

    run(story())


def test_markers_of_other_brokers_are_waited_for() -> None:
    async def story() -> None:
        stage = Stage(is_remote=True)
        stage.leaders.codes[T0] = [LATER]
        stage.writer.perform(EFFECT)
        assert stage.shard.completed == []
        await stage.settle()
        assert [names for _, names in stage.leaders.asked] == [[T0, T1], [T0]]
        assert stage.shard.completed == [EFFECT]

    run(story())


def test_a_deleted_partition_needs_no_marker() -> None:
    async def story() -> None:
        stage = Stage()
        stage.writer.perform(EFFECT._replace(partitions=frozenset({T0, GONE})))
        assert [names for _, names in stage.leaders.asked] == [[T0]]
        assert len(stage.shard.completed) == 1

    run(story())


def test_a_transaction_without_partitions_is_complete_at_once() -> None:
    async def story() -> None:
        stage = Stage()
        stage.writer.perform(EFFECT._replace(partitions=frozenset()))
        assert len(stage.shard.completed) == 1

    run(story())


def test_a_partition_with_a_later_epoch_is_reported_and_keeps_nobody_waiting() -> None:
    async def story() -> None:
        stage = Stage()
        stage.leaders.codes[T0] = [ErrorCode.INVALID_PRODUCER_EPOCH]
        stage.writer.perform(EFFECT)
        assert stage.refused == [(T0, ErrorCode.INVALID_PRODUCER_EPOCH)]
        assert stage.shard.completed == [EFFECT]

    run(story())


def test_the_end_is_recorded_again_if_the_log_cannot_be_written() -> None:
    async def story() -> None:
        stage = Stage()
        stage.shard.refusals = 3
        stage.writer.perform(EFFECT)
        await stage.settle()
        assert stage.shard.completed == [EFFECT]
        # The markers are there already.
        assert [names for _, names in stage.leaders.asked if names] == [[T0, T1]]

    run(story())


def test_a_coordinator_that_has_moved_writes_nothing_more() -> None:
    async def story() -> None:
        stage = Stage()
        stage.leaders.codes[T0] = [LATER] * 100
        stage.writer.perform(EFFECT)
        await asyncio.sleep(RETRY_MS_MAX / 1000)
        # The next shard may have written them, and the next transaction of this epoch be open.
        tries = len(stage.leaders.asked)
        stage.shard.is_closed = True
        await stage.settle()
        await asyncio.sleep(10)
        assert len(stage.leaders.asked) == tries < 10
        assert stage.shard.completed == []
        assert stage.meter.unfinished == 0

    run(story())


def many(count: int) -> WriteMarkers:
    return EFFECT._replace(partitions=frozenset(TopicPartition("t", n) for n in range(count)))


def test_the_markers_of_many_partitions_are_written_in_several_turns() -> None:
    async def story() -> None:
        stage = Stage()
        stage.leaders.codes[T1] = [LATER]
        stage.writer.perform(many(100))
        assert stage.leaders.asked == []
        turns = []
        while not stage.tasks[0].done() and len(turns) < 6:
            await asyncio.sleep(0)
            turns.append(sum(len(names) for _, names in stage.leaders.asked))
        assert turns[:4] == [32, 64, 96, 100]
        assert stage.shard.completed == []
        await stage.settle()
        assert [names for _, names in stage.leaders.asked][4:] == [[T1]]
        assert stage.shard.completed == [many(100)]
        assert stage.meter.markers == 100

    run(story())


def test_the_turns_of_many_markers_do_not_wait_for_the_answers_of_each_other() -> None:
    async def story() -> None:
        stage = Stage(is_remote=True)
        loop = asyncio.get_running_loop()
        started = loop.time()
        stage.writer.perform(many(200))
        await stage.settle()
        assert stage.shard.completed == [many(200)]
        # Each answer takes 10 ms.
        assert loop.time() - started < 0.02

    run(story())


def test_a_coordinator_that_moves_writes_no_more_of_many_markers() -> None:
    async def story() -> None:
        stage = Stage()
        stage.writer.perform(many(100))
        await asyncio.sleep(0)
        stage.shard.is_closed = True
        await stage.settle()
        assert sum(len(names) for _, names in stage.leaders.asked) == 32
        assert stage.shard.completed == []

    run(story())


def test_a_marker_that_is_not_written_for_long_is_reported_once() -> None:
    async def story() -> None:
        stage = Stage()
        stage.leaders.codes[T1] = [LATER] * 10
        stage.writer.perform(EFFECT)
        await stage.settle()
        assert stage.delayed == [T1]
        stage.shard.refusals = 10
        stage.writer.perform(EFFECT)
        await stage.settle()
        assert stage.delayed == [T1, None]

    run(story())
