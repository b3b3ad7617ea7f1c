"""A load gives others their turn, and tells for how long it has kept them from it."""

import pytest

from ottla.coordinators.runtime.decision import Decision
from ottla.coordinators.runtime.loading import RECORDS_AT_ONCE, SLICE_NS_MAX, Loader
from ottla.storage.log.file_slice import FileSlice
from tests.sim.seams.clock import SimClock
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.threads import SimThreads
from tests.support.coordinators.counters import COUNTERS_TOPIC, Counted
from tests.unit.coordinators.runtime.test_shards import Stage, on_stage

# What passes between two looks at the clock.
STEP_NS = SLICE_NS_MAX // 4
LOOKS_IN_A_SLICE = SLICE_NS_MAX // STEP_NS + 1


class BusyClock(SimClock):
    """Time passes whenever somebody looks: there is work in between."""

    def steady_ns(self) -> int:
        self.timeline.advance_ns(STEP_NS)
        return super().steady_ns()


class CountingLoader(Loader):
    """It counts how often it has given way."""

    turns = 0

    async def _give_way(self) -> None:
        self.turns += 1
        await super()._give_way()


async def turns_after(stage: Stage, records: tuple[Counted, ...]) -> int:
    """How often others have their turn while this is loaded, which was written as one batch."""
    stage.create(COUNTERS_TOPIC)
    shard = stage.shards.of("g")
    await shard.write(lambda _: Decision(records))
    threads = SimThreads(SimEntropy())
    loader = CountingLoader(shard, BusyClock(), threads, lambda offset, error: None)
    assert await loader.load()
    return loader.turns


def test_others_have_their_turn_within_a_long_batch() -> None:
    async def story(stage: Stage) -> None:
        # They are of one key: what they say in the end is replayed in one step.
        written = tuple(Counted("g", count) for count in range(2_000))
        looks = len(written) // RECORDS_AT_ONCE
        assert await turns_after(stage, written) >= looks // LOOKS_IN_A_SLICE

    on_stage(story)


def test_others_have_their_turn_while_the_machine_decides_what_follows_from_a_load() -> None:
    async def story(stage: Stage) -> None:
        written = tuple(Counted(f"g{number}", 1) for number in range(1_000))
        # One look for each that is replayed, and one for each that begins.
        looks = 2 * len(written)
        assert await turns_after(stage, written) >= looks // LOOKS_IN_A_SLICE

    on_stage(story)


def test_the_longest_slice_of_a_load_is_the_one_that_was_cut_by_the_clock() -> None:
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
