import asyncio

from ottla.replication.housekeeping.slices import SLICE_NS_MAX, in_slices
from tests.sim.seams.clock import SimClock


def test_other_tasks_run_after_each_slice_and_not_after_each_item() -> None:
    clock, happened = SimClock(), []

    async def other() -> None:
        happened.append("other")

    async def loop() -> None:
        task = None
        async for item in in_slices(range(4), clock):
            task = task or asyncio.create_task(other())
            happened.append(str(item))
            clock.advance(ns=SLICE_NS_MAX // 2)

    asyncio.run(loop())
    assert happened == ["0", "1", "other", "2", "3"]
