"""Deadlines that are moved: they are met on time, and with few timers."""

import asyncio
from collections.abc import Callable

import pytest

from ottla.seams.deadline import Deadline
from tests.sim.seams.loop import run


class Met:
    """A deadline, and the seconds after which it was met."""

    def __init__(self) -> None:
        self._began_s = asyncio.get_running_loop().time()
        self.at_s: list[float] = []
        self.deadline = Deadline(self._note)

    def _note(self) -> None:
        self.at_s.append(round(asyncio.get_running_loop().time() - self._began_s, 3))


def test_a_deadline_is_met_once() -> None:
    async def story() -> None:
        met = Met()
        met.deadline.set(5)
        await asyncio.sleep(60)
        assert met.at_s == [5]

    run(story())


def test_a_deadline_that_is_moved_is_met_at_its_last_time() -> None:
    async def story() -> None:
        met = Met()
        met.deadline.set(5)
        await asyncio.sleep(4)
        met.deadline.set(5)
        await asyncio.sleep(60)
        assert met.at_s == [9]

    run(story())


def test_an_earlier_deadline_does_not_wait_for_the_first_timer() -> None:
    async def story() -> None:
        met = Met()
        met.deadline.set(50)
        met.deadline.set(5)
        await asyncio.sleep(60)
        assert met.at_s == [5]

    run(story())


def test_a_cleared_deadline_is_not_met_and_may_be_set_again() -> None:
    async def story() -> None:
        met = Met()
        met.deadline.set(5)
        await asyncio.sleep(1)
        met.deadline.clear()
        await asyncio.sleep(60)
        assert met.at_s == []
        met.deadline.set(5)
        await asyncio.sleep(60)
        assert met.at_s == [66]

    run(story())


def test_a_deadline_that_is_met_may_be_set_again() -> None:
    async def story() -> None:
        met = Met()
        for _ in range(3):
            met.deadline.set(5)
            await asyncio.sleep(10)
        assert met.at_s == [5, 15, 25]

    run(story())


def test_a_closed_deadline_is_not_met() -> None:
    async def story() -> None:
        met = Met()
        met.deadline.set(5)
        met.deadline.close()
        await asyncio.sleep(60)
        assert met.at_s == []

    run(story())


def test_a_deadline_that_is_set_a_thousand_times_starts_one_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        loop, started = asyncio.get_running_loop(), []
        call_at = loop.call_at

        def counted(when: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
            started.append(when)
            return call_at(when, callback)

        deadline = Deadline(lambda: None)
        with monkeypatch.context() as patch:
            patch.setattr(loop, "call_at", counted)
            for _ in range(1_000):
                deadline.set(60)
                deadline.clear()
        assert len(started) == 1
        deadline.close()

    run(story())
