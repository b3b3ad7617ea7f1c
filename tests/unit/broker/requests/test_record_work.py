"""The queue of record work: bounded, one batch at a time, ordinary batches before large ones."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.broker.requests.record_work import (
    FIRST_LANE_UNITS,
    SECOND_LANE_EVERY,
    RecordWork,
    RecordWorkQueueFull,
    Work,
)
from ottla.storage.admission.work_budget import BudgetSpent, WorkBudget
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.threads import SimThreads

ORDINARY, LARGE = FIRST_LANE_UNITS // 4, 5 * FIRST_LANE_UNITS


class Desk:
    """A queue of record work that notes the order of finished batches."""

    def __init__(self, waiting_bytes_max: int = 1 << 30) -> None:
        self.done: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        threads = SimThreads(SimEntropy())
        self.queue = RecordWork(threads, self._spawn, lambda: waiting_bytes_max)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def work(self, name: str, units: int) -> Work[str]:
        def do(budget: WorkBudget) -> str:
            if budget.units_left is not None and budget.units_left < units:
                raise BudgetSpent
            self.done.append(name)
            return name

        return do

    async def ask(self, name: str, units: int, size_bytes: int = 10) -> str:
        return await self.queue.run(self.work(name, units), size_bytes)


def test_an_ordinary_batch_does_not_wait_behind_large_ones() -> None:
    async def story() -> None:
        desk = Desk()
        large = [asyncio.create_task(desk.ask(f"large {n}", LARGE)) for n in range(100)]
        await asyncio.sleep(0)
        assert await desk.ask("ordinary", ORDINARY) == "ordinary"
        # Each large batch was tried, and some had their turn in the second lane.
        assert len(desk.done) <= 2 + 100 // SECOND_LANE_EVERY
        await asyncio.gather(*large)
        assert len(desk.done) == 101
        assert desk.queue.waiting_bytes == 0

    run(story())


def test_large_batches_have_their_turn_among_many_ordinary_ones() -> None:
    async def story() -> None:
        desk = Desk()
        large = asyncio.create_task(desk.ask("large", LARGE))

        async def client(number: int) -> None:
            while not large.done():
                await desk.ask(f"ordinary {number}", ORDINARY)

        await asyncio.gather(*(client(number) for number in range(5)))
        assert desk.done.index("large") <= 2 * SECOND_LANE_EVERY

    run(story())


def test_queued_bytes_are_bounded_and_one_batch_is_always_accepted() -> None:
    async def story() -> None:
        desk = Desk(waiting_bytes_max=100)
        first = asyncio.create_task(desk.ask("larger than all", ORDINARY, size_bytes=500))
        await asyncio.sleep(0)
        with pytest.raises(RecordWorkQueueFull):
            await desk.ask("one more", ORDINARY)
        assert await first == "larger than all"
        assert await desk.ask("one more", ORDINARY) == "one more"

    run(story())


def test_the_work_of_a_disconnected_client_is_skipped_in_both_lanes() -> None:
    async def story() -> None:
        desk = Desk()
        asked = [asyncio.create_task(desk.ask(f"{n}", LARGE)) for n in range(20)]
        await asyncio.sleep(0)
        for task in asked[1:15]:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        assert await desk.ask("last", ORDINARY) == "last"
        assert len(desk.done) <= 7
        assert desk.queue.waiting_bytes == 0

    run(story())


def test_an_error_goes_to_its_caller_only() -> None:
    async def story() -> None:
        desk = Desk()

        def fail(_budget: WorkBudget) -> None:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            await desk.queue.run(fail, 10)
        assert await desk.ask("next", ORDINARY) == "next"

    run(story())


def test_batches_that_wait_for_something_else_count_as_well() -> None:
    async def story() -> None:
        desk = Desk(waiting_bytes_max=100)
        with desk.queue.holding(500):
            assert desk.queue.waiting_bytes == 500, "one is always taken"
            with pytest.raises(RecordWorkQueueFull), desk.queue.holding(1):
                pass
            with pytest.raises(RecordWorkQueueFull):
                await desk.queue.run(lambda _: None, 1)
        assert desk.queue.waiting_bytes == 0
        with desk.queue.holding(60), desk.queue.holding(40):
            assert desk.queue.waiting_bytes == 100

    run(story())
