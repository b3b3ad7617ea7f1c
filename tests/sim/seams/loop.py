"""A plain asyncio loop whose time is virtual.

Where the real loop would sleep until its next timer, this one moves the clock there. Nothing waits
for the kernel, so an hour takes no time; and whoever waits for what can never come is told so.
"""

import asyncio
import heapq
import itertools
import math
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Executor
from contextvars import Context
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from tests.sim.seams.clock import SimClock, Timeline
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.owner import Owner, kernel_context, owner_in

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

TURNS_AT_ONE_INSTANT_MAX = 1_000_000


class SimulationStuckError(RuntimeError):
    """Nothing can happen any more, or too much happens without time passing."""


class SimTask(asyncio.Task[Any]):
    """A task that knows its owner, and whose hash is its number.

    asyncio keeps tasks in sets (a TaskGroup's children, for one). Hashed by address, as they are,
    they would be cancelled in another order in every run.
    """

    def __init__(self, number: int, coroutine: Any, **options: Any) -> None:
        self._number = number
        self.owner = owner_in(options.get("context"))
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class SimFuture(asyncio.Future[Any]):
    """A future whose hash is its number, for the same reason."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class OwnedHandle(asyncio.Handle):
    """A callback that runs when its owner does."""

    __slots__ = ("_owner",)

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._owner = owner_in(context)
        super().__init__(callback, args, loop, context)

    def _run(self) -> None:
        if self._owner is None or self._owner.may_run(self):
            super()._run()


class OwnedTimer(asyncio.TimerHandle):
    """A timer that fires when its owner runs."""

    __slots__ = ("_owner",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._owner = owner_in(context)
        super().__init__(when, callback, args, loop, context)

    def _run(self) -> None:
        if self._owner is None or self._owner.may_run(self):
            super()._run()


class VirtualSelector(selectors.BaseSelector):
    """Selects nothing, ever; a wait moves the timeline instead."""

    def __init__(self, timeline: Timeline, entropy: SimEntropy, lateness_ns_max: int) -> None:
        self._timeline = timeline
        self._entropy = entropy
        self._lateness_ns_max = lateness_ns_max
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise SimulationStuckError("every task waits, and no timer will ever wake one")
        if timeout > 0:
            late_ns = self._entropy.between(0, self._lateness_ns_max)
            self._timeline.advance_ns(math.ceil(timeout * 1e9) + late_ns)
            self._turns = 0
        self._turns += 1
        if self._turns > TURNS_AT_ONE_INSTANT_MAX:
            raise SimulationStuckError(f"{self._turns} turns of the loop, and no time has passed")
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise RuntimeError("the simulated loop has no real descriptors")

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class SimLoop(asyncio.SelectorEventLoop):
    """An event loop under a virtual clock. What nobody handles ends up in `failures`.

    It runs all processes of a simulation. Each of them can be paused while the others go on, and
    can be killed.
    """

    # asyncio's own queues: what is ready to run, and a heap of timers.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, timeline: Timeline, entropy: SimEntropy, lateness_ns_max: int = 0) -> None:
        self._timeline = timeline
        super().__init__(VirtualSelector(timeline, entropy, lateness_ns_max))
        self.failures: list[Exception] = []
        self._numbers = itertools.count(1)
        self._ended: list[SimTask] = []
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self._timeline.now_ns / 1e9

    # asyncio fires a timer that is less than this early. A timer that looks at the time and waits
    # again would then fire for ever, as virtual time stands still meanwhile: so not a bit early.
    @property
    def _clock_resolution(self) -> float:
        return math.ulp(self.time())

    @_clock_resolution.setter
    def _clock_resolution(self, resolution: float) -> None:
        """asyncio sets the real clock's, which says nothing here."""

    # Owners

    def pause(self, owner: Owner) -> None:
        """Stops a process, as SIGSTOP does; the clock and all others go on."""
        owner.is_paused = True

    def resume(self, owner: Owner) -> None:
        """All that became due for it meanwhile runs now, in order, before what is due later."""
        owner.is_paused = False
        held, owner.held = owner.held, []
        self._ready.extendleft(reversed(held))

    def kill(self, owner: Owner) -> None:
        """Ends a process. Its timers never fire again, and its tasks are cancelled.

        Its files, sockets and sessions are the caller's to end, before this call: tasks that unwind
        still run code.
        """
        owner.is_dead = True
        self.resume(owner)
        for task in sorted(asyncio.all_tasks(self), key=hash):
            if isinstance(task, SimTask) and task.owner is owner:
                self._end(task)

    def _end(self, task: SimTask) -> None:
        """Cancels a task of a dead process."""
        # Nothing else may refer to it: it would be collected, at any time, where it stands.
        self._ended.append(task)
        # After its first step: else what it is to await would never be awaited.
        self.call_soon(task.cancel, context=kernel_context())

    def _call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.Handle:
        handle = OwnedHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = OwnedTimer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        setattr(timer, "_scheduled", True)  # noqa: B010 - it is private to asyncio
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return SimFuture(next(self._numbers), self)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception):
            error.add_note(str(context["message"]))
            self.failures.append(error)
        else:
            failure = RuntimeError(f"{context['message']}: {error!r}")
            failure.__cause__ = error
            self.failures.append(failure)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> NoReturn:
        raise RuntimeError("a real thread inside a simulation: use seams.threads")

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,
    ) -> SimTask:
        task = SimTask(next(self._numbers), coroutine, loop=loop, **options)
        if task.owner is not None and task.owner.is_dead:
            self._end(task)
        return task

    # The real loop wakes itself through a socket pair, for signals and threads. Here are neither.

    def _make_self_pipe(self) -> None:
        pass

    def _close_self_pipe(self) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def run(
    coroutine: Coroutine[Any, Any, Result],
    seed: int | SimEntropy = 0,
    *,
    clock: SimClock | None = None,
    lateness_ns_max: int = 0,
) -> Result:
    """Runs `coroutine` to its end in virtual time, on `clock`'s timeline.

    The seed decides how late, up to `lateness_ns_max`, the loop wakes for each timer. Raises what
    the coroutine raises, else an ExceptionGroup of what nobody handled, if there is any.
    """
    timeline = clock.timeline if clock is not None else Timeline()
    entropy = SimEntropy(seed) if isinstance(seed, int) else seed
    loop = SimLoop(timeline, entropy.fork("loop"), lateness_ns_max)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(coroutine)
    if loop.failures:
        raise ExceptionGroup("nobody handled these", loop.failures)
    return result
