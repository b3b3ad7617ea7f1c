"""Decompression and checks of clients' records: on the event loop or, beyond a budget, in a thread.

Clients decide how long it takes to decompress, read and compress their records. Each turn of the
loop has a budget for this work. Work beyond the budget runs in a thread, one batch at a time, so
that memory holds one decompressed batch.

The thread's queue has two lanes. Every batch enters the first lane, with a larger budget. A batch
that exceeds this budget too starts again in the second lane. The second lane runs when the first
one is empty, and once per SECOND_LANE_EVERY batches. So ordinary batches do not wait behind any
number of batches of the largest allowed size.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.seams.threads import Threads
from ottla.storage.admission.work_budget import UNBOUNDED, BudgetSpent, WorkBudget

# In decompressed bytes: some 10 ms with a slow codec.
UNITS_PER_TURN = 4 << 20
# About 50 ms.
FIRST_LANE_UNITS = 24 << 20
# One batch of the second lane runs after this many batches of the first.
SECOND_LANE_EVERY = 8

Result = TypeVar("Result")


class TurnBudget(WorkBudget):
    """A budget that is refilled in each turn of the event loop."""

    __slots__ = ("_is_whole", "_units_per_turn")

    def __init__(self, units_per_turn: int = UNITS_PER_TURN) -> None:
        super().__init__(units_per_turn)
        self._units_per_turn = units_per_turn
        self._is_whole = True

    def _spend(self, units: int) -> None:
        super()._spend(units)
        if self._is_whole:
            self._is_whole = False
            asyncio.get_running_loop().call_soon(self._refill)

    def _refill(self) -> None:
        self.units_left = self._units_per_turn
        self._is_whole = True


class RecordWorkQueueFull(PeerError):
    """The batches of other clients use all the memory of the queue. A retry may succeed."""

    def __init__(self) -> None:
        message = "too many batches wait for their records to be read"
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


# Raises BudgetSpent if the budget is too small. It may be called again with a larger one.
Work = Callable[[WorkBudget], Result]


class _Job(NamedTuple):
    work: Callable[[WorkBudget], Any]
    size_bytes: int
    done: "asyncio.Future[Any]"


class RecordWork:
    """The queue of work for the thread. `spawn` starts a background task."""

    def __init__(
        self,
        threads: Threads,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        waiting_bytes_max: Callable[[], int],
    ) -> None:
        """`waiting_bytes_max` returns the limit of memory for queued batches."""
        self._threads = threads
        self._spawn = spawn
        self._waiting_bytes_max = waiting_bytes_max
        self._first_lane: deque[_Job] = deque()
        self._second_lane: deque[_Job] = deque()
        self._first_lane_streak = 0
        self._is_running = False
        self.waiting_bytes = 0

    async def run(self, work: Work[Result], size_bytes: int) -> Result:
        """Does `work` in a thread; it keeps `size_bytes` of memory. RecordWorkQueueFull."""
        if self.waiting_bytes > 0 and self._is_full(size_bytes):
            raise RecordWorkQueueFull
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._first_lane.append(_Job(work, size_bytes, done))
        self.waiting_bytes += size_bytes
        if not self._is_running:
            self._is_running = True
            self._spawn(self._run_queue(), "record work")
        return await done

    @contextmanager
    def holding(self, size_bytes: int) -> Iterator[None]:
        """Counts batches that wait for anything else than the thread. RecordWorkQueueFull."""
        if self.waiting_bytes > 0 and self._is_full(size_bytes):
            raise RecordWorkQueueFull
        self.waiting_bytes += size_bytes
        try:
            yield
        finally:
            self.waiting_bytes -= size_bytes

    def _is_full(self, size_bytes: int) -> bool:
        return self.waiting_bytes + size_bytes > self._waiting_bytes_max()

    async def _run_queue(self) -> None:
        try:
            while self._first_lane or self._second_lane:
                if self._is_second_lane_due():
                    self._first_lane_streak = 0
                    await self._finish(self._second_lane.popleft(), UNBOUNDED)
                else:
                    self._first_lane_streak += 1
                    job = self._first_lane.popleft()
                    if not await self._finish(job, WorkBudget(FIRST_LANE_UNITS)):
                        self._second_lane.append(job)
        finally:
            self._is_running = False

    def _is_second_lane_due(self) -> bool:
        if not self._second_lane:
            return False
        return not self._first_lane or self._first_lane_streak >= SECOND_LANE_EVERY

    async def _finish(self, job: _Job, budget: WorkBudget) -> bool:
        """Whether the budget was large enough."""
        # Cancelled: the client has disconnected.
        if not job.done.cancelled():
            try:
                result = await self._threads.run(lambda: job.work(budget))
            except BudgetSpent:
                return False
            except Exception as error:  # noqa: BLE001 - the caller of `run` gets it
                if not job.done.cancelled():
                    job.done.set_exception(error)
            else:
                if not job.done.cancelled():
                    job.done.set_result(result)
        self.waiting_bytes -= job.size_bytes
        return True
