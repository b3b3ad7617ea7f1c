"""Background tasks: failures are reported, and closing cancels them."""

import asyncio

from ottla.broker.tasks import Tasks
from tests.sim.seams.loop import run


def test_a_failed_task_is_reported_and_a_cancelled_one_is_not() -> None:
    async def story() -> None:
        faults: list[Exception] = []
        tasks = Tasks(faults.append)
        error = ValueError("a bug")

        async def fail() -> None:
            raise error

        tasks.spawn(fail(), "fails")
        tasks.spawn(asyncio.sleep(1_000), "sleeps")
        await asyncio.sleep(1)
        assert faults == [error]
        began_s = asyncio.get_running_loop().time()
        await tasks.close()
        assert asyncio.get_running_loop().time() - began_s < 1, "not cancelled"
        assert faults == [error]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(story())
