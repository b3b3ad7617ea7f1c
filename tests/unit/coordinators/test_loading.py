"""A load tells for how long it has kept others from their turn."""

from ottla.coordinators.loading import SLICE_NS_MAX, Loader
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from tests.sim.seams.clock import SimClock
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.threads import SimThreads
from tests.unit.coordinators.test_shards import Stage, on_stage

# What passes between two looks at the clock.
STEP_NS = SLICE_NS_MAX // 4


class BusyClock(SimClock):
    """Time passes whenever somebody looks: there is work in between."""

    def steady_ns(self) -> int:
        self.timeline.advance_ns(STEP_NS)
        return super().steady_ns()


def test_the_longest_slice_of_a_load_is_the_one_that_was_cut_by_the_clock() -> None:
    async def story(stage: Stage) -> None:
        stage.create(CONSUMER_OFFSETS)
        for number in range(30):
            await stage.write("g", f"topic-{number}")
        loader = Loader(
            stage.shards.of("g"),
            BusyClock(),
            SimThreads(SimEntropy()),
            lambda offset, error: None,
        )
        assert await loader.load()
        assert SLICE_NS_MAX <= loader.longest_slice_ns <= SLICE_NS_MAX + 2 * STEP_NS

    on_stage(story)
