"""The simulated loop and threads: virtual time, real asyncio."""

import asyncio
import contextlib
import errno
from collections.abc import Awaitable, Callable

import pytest

from ottla.seams.files import write_all
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import SimulationStuckError, run
from tests.sim.seams.threads import SimThreads


def now() -> float:
    return asyncio.get_running_loop().time()


def test_an_hour_of_sleep_passes_on_the_clock_and_nowhere_else() -> None:
    clock = SimClock()

    async def main() -> float:
        await asyncio.sleep(3600)
        return now()

    assert run(main(), clock=clock) == 3600
    assert clock.steady_ns() == 3600 * 10**9


def test_a_year_of_timers_fires_in_order() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        for day in (300, 1, 365, 42):
            asyncio.get_running_loop().call_later(day * 86_400, fired.append, day)
        await asyncio.sleep(366 * 86_400)
        return fired

    assert run(main()) == [1, 42, 300, 365]


def test_a_timer_never_fires_early_however_late_it_is() -> None:
    async def main() -> int:
        early = 0
        for pause_s in (0.1, 1e-9, 1e7 + 0.3, 1 / 3, 2.5e-10, 1e8 / 7):
            until = now() + pause_s
            await asyncio.sleep(pause_s)
            early += now() < until
        return early

    assert run(main()) == 0


def test_timeouts_fire_in_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return now()

    assert run(main()) == 30


def test_a_wait_that_nothing_can_end_is_an_error_and_no_hang() -> None:
    with pytest.raises(SimulationStuckError, match="every task waits"):
        run(asyncio.Event().wait())


def test_a_loop_that_turns_without_time_passing_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.sim.seams.loop.TURNS_AT_ONE_INSTANT_MAX", 100)

    async def main() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(SimulationStuckError, match="no time has passed"):
        run(main())


def test_an_error_that_nobody_handles_fails_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        run(main())
    assert caught.group_contains(ZeroDivisionError)


def test_real_threads_and_descriptors_are_refused() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"seams\.threads"):
            await asyncio.to_thread(print)
        with pytest.raises(RuntimeError, match="descriptors"):
            asyncio.get_running_loop().add_reader(0, print)

    run(main())


def test_a_task_group_cancels_its_tasks_in_the_same_order_in_every_run() -> None:
    async def main() -> list[int]:
        ended: list[int] = []

        async def child(number: int) -> None:
            try:
                await asyncio.sleep(1_000)
            finally:
                ended.append(number)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise LookupError

        with contextlib.suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(child(number))
                group.create_task(fail())
        return ended

    first = run(main())
    kept = [object() for _ in range(1_000)]
    assert run(main()) == first
    assert sorted(first) == list(range(50))
    assert len(kept) == 1_000


def test_timers_may_be_late_as_the_seed_says() -> None:
    async def main() -> float:
        await asyncio.sleep(1)
        return now()

    late = {run(main(), seed, lateness_ns_max=1_000_000) for seed in range(20)}
    assert len(late) > 10
    assert all(1 <= time <= 1.001 for time in late)
    assert run(main(), 5, lateness_ns_max=99) == run(main(), 5, lateness_ns_max=99)


def with_threads(scenario: Callable[[SimThreads], Awaitable[object]], seed: int = 0) -> object:
    async def main() -> object:
        return await scenario(SimThreads(SimEntropy(seed), workers_max=2))

    return run(main(), seed)


def test_work_happens_later_and_its_result_or_error_is_the_callers() -> None:
    async def scenario(threads: SimThreads) -> None:
        assert await threads.run(lambda: 42) == 42
        assert now() > 0
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 / 0)

    with_threads(scenario)


def test_work_overtakes_other_work_as_the_seed_says() -> None:
    async def scenario(threads: SimThreads) -> tuple[int, ...]:
        done: list[int] = []
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(threads.run(lambda number=number: done.append(number)))
        return tuple(done)

    orders = [with_threads(scenario, seed) for seed in range(30)]
    assert orders == [with_threads(scenario, seed) for seed in range(30)]
    assert len(set(orders)) > 5


def test_a_caller_cancelled_before_prevents_the_work_and_one_cancelled_after_does_not() -> None:
    outcomes = set()
    for seed in range(60):

        async def scenario(threads: SimThreads) -> int:
            done: list[int] = []
            task = asyncio.create_task(threads.run(lambda: done.append(1)))
            await asyncio.sleep(0.003)
            task.cancel()
            await asyncio.wait([task])
            at_cancel = len(done)
            await asyncio.sleep(1)
            assert len(done) == at_cancel
            return at_cancel + 2 * task.cancelled()

        outcomes.add(with_threads(scenario, seed))
    assert outcomes == {1, 2, 3}


def test_close_finishes_queued_work_and_accepts_no_more() -> None:
    async def scenario(threads: SimThreads) -> None:
        done: list[int] = []
        tasks = [
            asyncio.create_task(threads.run(lambda number=number: done.append(number)))
            for number in range(5)
        ]
        await asyncio.sleep(0)
        threads.close()
        assert done == [0, 1, 2, 3, 4]
        await asyncio.gather(*tasks)
        with pytest.raises(RuntimeError, match="after close"):
            await threads.run(lambda: None)

    with_threads(scenario)


def test_a_crash_drops_work_that_had_not_begun() -> None:
    disk = SimDisk(1)
    files = disk.process()
    file = files.create("/a")

    async def scenario(threads: SimThreads) -> None:
        tasks = [
            asyncio.create_task(threads.run(lambda: write_all(file, 0, [b"x"]))) for _ in range(5)
        ]
        await asyncio.sleep(0)
        threads.crash()
        files.crash()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)
        with pytest.raises(OSError) as caught:
            file.size()
        assert caught.value.errno == errno.EBADF

    with_threads(scenario)
    assert disk.files() == {"/a": b""}
