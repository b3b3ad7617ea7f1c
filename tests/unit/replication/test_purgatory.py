"""Requests that wait, in virtual time."""

import asyncio

from ottla.replication.purgatory import Waiter, WaitingRoom
from tests.sim.seams.loop import run


async def elapsed_ms(waiter: Waiter, missing: int) -> int:
    loop = asyncio.get_running_loop()
    began = loop.time()
    waiter.expect(missing)
    await waiter.wait()
    return round((loop.time() - began) * 1000)


def test_a_waiter_goes_on_once_enough_was_counted_and_not_before() -> None:
    async def story() -> None:
        room, waiter = WaitingRoom(), Waiter(5_000)
        room.enter(waiter)
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, room.count, 40)
        loop.call_later(0.3, room.count, 60)
        assert await elapsed_ms(waiter, 100) == 300
        assert not waiter.is_over
        waiter.close()

    run(story())


def test_it_can_wait_again_for_what_is_left_of_its_time() -> None:
    async def story() -> None:
        room, waiter = WaitingRoom(), Waiter(1_000)
        room.enter(waiter)
        asyncio.get_running_loop().call_later(0.4, room.wake_all)
        assert await elapsed_ms(waiter, 100) == 400
        assert await elapsed_ms(waiter, 100) == 600
        assert waiter.is_over
        assert await elapsed_ms(waiter, 100) == 0

    run(story())


def test_who_has_no_time_does_not_wait() -> None:
    async def story() -> None:
        for wait_ms in (0, -1):
            waiter = Waiter(wait_ms)
            assert waiter.is_over
            assert await elapsed_ms(waiter, 1) == 0

    run(story())


def test_who_left_a_room_is_not_told_and_leaving_twice_is_nothing() -> None:
    async def story() -> None:
        room, waiter = WaitingRoom(), Waiter(1_000)
        room.enter(waiter)
        room.enter(waiter)
        assert len(room) == 1
        room.leave(waiter)
        room.leave(waiter)
        asyncio.get_running_loop().call_later(0.1, room.count, 100)
        assert await elapsed_ms(waiter, 1) == 1_000

    run(story())


def test_a_count_before_anybody_waits_is_no_fault() -> None:
    async def story() -> None:
        waiter = Waiter(1_000)
        waiter.count(5)
        waiter.wake()
        assert await elapsed_ms(waiter, 1) == 1_000, "it looks again before it waits"

    run(story())


def test_unstable_bytes_are_not_counted_for_those_who_read_stable_ones_only() -> None:
    async def story() -> None:
        room, committed, uncommitted = WaitingRoom(), Waiter(1_000), Waiter(1_000)
        room.enter(committed, is_committed_only=True)
        room.enter(uncommitted)
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, room.count_unstable, 50)
        loop.call_later(0.2, room.count, 50)
        waits = (elapsed_ms(committed, 50), elapsed_ms(uncommitted, 50))
        assert await asyncio.gather(*waits) == [200, 100]
        committed.close()
        uncommitted.close()

    run(story())
