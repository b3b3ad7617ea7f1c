"""Other tasks run during a load, which reports for how long it blocked them."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.coordinators.runtime.decision import Decision
from ottla.coordinators.runtime.loading import RECORDS_PER_STEP, SLICE_NS_MAX, Loader
from ottla.storage.log.file_slice import FileSlice
from tests.sim.seams.clock import SimClock
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.threads import SimThreads
from tests.support.coordinators.counters import COUNTERS_TOPIC, Counted
from tests.unit.coordinators.runtime.test_shards import Stage, on_stage

# The time that passes between two readings of the clock.
STEP_NS = SLICE_NS_MAX // 4
LOOKS_IN_A_SLICE = SLICE_NS_MAX // STEP_NS + 1


class BusyClock(SimClock):
    """Time advances with each reading, as if work was done in between."""

    def steady_ns(self) -> int:
        self.timeline.advance_ns(STEP_NS)
        return super().steady_ns()


class CountingLoader(Loader):
    """Counts how often it let other tasks run."""

    turns = 0

    async def _give_way(self) -> None:
        self.turns += 1
        await super()._give_way()


async def turns_after(stage: Stage, records: tuple[Counted, ...]) -> int:
    """How often other tasks run while this log of one batch is loaded."""
    stage.create(COUNTERS_TOPIC)
    shard = stage.shards.of("g")
    await shard.write(lambda _: Decision(records))
    threads = SimThreads(SimEntropy())
    loader = CountingLoader(shard, BusyClock(), threads, lambda offset, error: None)
    assert await loader.load()
    return loader.turns


def test_other_tasks_run_within_a_long_batch() -> None:
    async def story(stage: Stage) -> None:
        # All records have the same key: only the last one is replayed.
        written = tuple(Counted("g", count) for count in range(2_000))
        looks = len(written) // RECORDS_PER_STEP
        assert await turns_after(stage, written) >= looks // LOOKS_IN_A_SLICE

    on_stage(story)


def test_other_tasks_run_during_the_decisions_of_a_load() -> None:
    async def story(stage: Stage) -> None:
        written = tuple(Counted(f"g{number}", 1) for number in range(1_000))
        # The clock is read once per replayed record and once per decision.
        looks = 2 * len(written)
        assert await turns_after(stage, written) >= looks // LOOKS_IN_A_SLICE

    on_stage(story)


def test_the_longest_slice_of_a_load_is_reported() -> None:
    async def story(stage: Stage) -> None:
        stage.create(COUNTERS_TOPIC)
        for number in range(30):
            await stage.write(f"g{number}")
        loader = Loader(
            stage.shards.of("g"),
            BusyClock(),
            SimThreads(SimEntropy()),
            lambda offset, error: None,
        )
        assert await loader.load()
        assert SLICE_NS_MAX <= loader.longest_slice_ns <= SLICE_NS_MAX + 2 * STEP_NS

    on_stage(story)


def test_a_load_from_cold_data_finds_its_batches_after_a_thread_has_read_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read_in_a_thread(piece: FileSlice) -> bytes:
        piece.file.warm(piece.position, piece.size)
        return piece.file.read_at(piece.position, piece.size)

    async def story(stage: Stage) -> None:
        stage.create(COUNTERS_TOPIC)
        for number in range(30):
            await stage.write(f"g{number}")
        threads = SimThreads(SimEntropy())
        shard = stage.shards.of("g")
        loader = Loader(shard, stage.clock, threads, lambda offset, error: None)
        log = shard.replica.log
        assert log is not None
        log.roll()
        stage.disk.chill()
        monkeypatch.setattr(FileSlice, "read", read_in_a_thread)
        assert await loader.load()
        assert stage.disk.pages_waited_for == 0

    on_stage(story)


@pytest.mark.parametrize(("read_bytes", "pieces"), [(1 << 20, 1), (1, 5)])
def test_a_log_is_read_in_pieces_of_the_load_buffer(read_bytes: int, pieces: int) -> None:
    async def story(stage: Stage) -> None:
        stage.create(COUNTERS_TOPIC)
        shard = stage.shards.of("g")
        for count in range(5):
            await shard.write(lambda _, count=count: Decision((Counted("g", count),)))
        threads = CountingThreads(SimEntropy())
        loader = Loader(shard, SimClock(), threads, lambda offset, error: None, read_bytes)
        assert await loader.load()
        assert threads.calls == pieces

    on_stage(story)


class CountingThreads(SimThreads):
    """Counts the calls that run in a thread."""

    calls = 0

    async def run(self, call: Callable[[], Any]) -> Any:
        self.calls += 1
        return await super().run(call)
