"""Long steps of requests run one per turn of the event loop."""

import asyncio

from ottla.broker.requests.turn_queue import TurnQueue
from tests.sim.seams.loop import run


def test_a_step_alone_begins_at_once() -> None:
    async def story() -> None:
        queue = TurnQueue()
        for _ in range(2):
            coming = queue.enter()
            assert _ends_without_a_wait(coming)
            await asyncio.sleep(0)

    run(story())


def test_steps_of_one_turn_run_in_order_and_one_per_turn() -> None:
    async def story() -> None:
        queue = TurnQueue()
        seen: list[str] = []

        async def step(name: str) -> None:
            await queue.enter()
            seen.append(name)

        def count_turn(left: int) -> None:
            seen.append("turn")
            if left:
                asyncio.get_running_loop().call_soon(count_turn, left - 1)

        steps = [asyncio.create_task(step(name)) for name in "abc"]
        asyncio.get_running_loop().call_soon(count_turn, 5)
        await asyncio.gather(*steps)
        assert [name for name in seen if name != "turn"] == ["a", "b", "c"]
        for one, other in (("a", "b"), ("b", "c")):
            assert "turn" in seen[seen.index(one) : seen.index(other)]

    run(story())


def test_a_cancelled_step_does_not_hold_up_the_others() -> None:
    async def story() -> None:
        queue = TurnQueue()
        steps = [asyncio.create_task(queue.enter()) for _ in range(4)]
        await asyncio.sleep(0)
        assert [step.done() for step in steps] == [True, False, False, False]
        steps[1].cancel()
        async with asyncio.timeout(1):
            await asyncio.gather(*steps[2:])
        assert steps[1].cancelled()

    run(story())


def _ends_without_a_wait(coming: object) -> bool:
    try:
        coming.send(None)  # type: ignore[attr-defined]
    except StopIteration:
        return True
    return False
