"""Simulated threads: work that happens at a random later time, on the simulated loop."""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TypeVar

from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.owner import kernel_context

Result = TypeVar("Result")


class _Job:
    """One piece of work: waiting for a worker, then running, then done."""

    __slots__ = ("context", "error", "future", "result", "started", "timer", "work")

    def __init__(self, work: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.context = copy_context()
        self.started = False
        self.timer: asyncio.TimerHandle | None = None
        self.result: Any = None
        self.error: Exception | None = None

    def start(self) -> None:
        self.started = True
        try:
            self.result = self.work()
        except Exception as error:  # noqa: BLE001 - it is the caller's, as the result is
            self.error = error

    def report(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class SimThreads:
    """`workers_max` pieces of work at once, the rest in line; when each runs, the seed decides.

    A piece of work happens at one instant; its caller hears of it at a later one. A caller that is
    cancelled in between does not undo the work; one that is cancelled before, prevents it. While
    the process is paused, the kernel completes work that a worker has taken; its callers hear of it
    when the process is resumed.
    """

    def __init__(
        self, entropy: SimEntropy, *, workers_max: int = 4, delay_us_max: int = 5_000
    ) -> None:
        self._entropy = entropy
        self._workers_max = workers_max
        self._delay_us_max = delay_us_max
        self._waiting: list[_Job] = []
        self._running: list[_Job] = []
        self._closed = False
        self._held = False
        # Whether what happens now happens in a thread.
        self.is_working = False

    def hold(self) -> None:
        """Nothing that is asked for from now on begins, until `release`."""
        self._held = True

    def release(self) -> None:
        self._held = False
        self._hand_out()

    @property
    def waiting(self) -> int:
        """How many pieces of work have not begun."""
        return len(self._waiting)

    async def run(self, work: Callable[[], Result]) -> Result:
        if self._closed:
            raise RuntimeError("cannot run work after close")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Job(work, future))
        self._hand_out()
        return await future

    def close(self) -> None:
        """What waits or runs is finished here and now."""
        self._closed = True
        jobs = self._running + self._waiting
        self._stop()
        for job in jobs:
            if not job.started and not job.future.cancelled():
                job.start()
            job.report()

    def crash(self) -> None:
        """The process dies: what has not happened never will, and nobody hears of the rest."""
        self._closed = True
        jobs = self._running + self._waiting
        self._stop()
        for job in jobs:
            job.future.cancel()

    def _stop(self) -> None:
        for job in self._running:
            if job.timer is not None:
                job.timer.cancel()
        self._running = []
        self._waiting = []

    def _hand_out(self) -> None:
        while not self._held and self._waiting and len(self._running) < self._workers_max:
            job = self._waiting.pop(0)
            if not job.future.cancelled():
                self._running.append(job)
                job.timer = self._later(self._start, job, kernel_context())

    def _start(self, job: _Job) -> None:
        if job.future.cancelled():
            self._finish(job)
            return
        self.is_working = True
        job.start()
        self.is_working = False
        # The work itself may have been what killed the process.
        if not self._closed:
            job.timer = self._later(self._finish, job, job.context)

    def _finish(self, job: _Job) -> None:
        self._running.remove(job)
        job.report()
        self._hand_out()

    def _later(
        self, step: Callable[[_Job], None], job: _Job, context: Context
    ) -> asyncio.TimerHandle:
        delay_us = self._entropy.between(1, self._delay_us_max)
        loop = asyncio.get_running_loop()
        return loop.call_later(delay_us / 1e6, step, job, context=context)
