"""Work on the records of clients: a little of it on the event loop, all else in a thread.

To unfold, read and compress records takes as long as a client makes it take. Each turn of the loop
has a budget for it. What goes beyond that is done in a thread, one batch at a time: so memory holds
one unfolded batch.

There are two lanes. Every batch comes into the first, where it has a larger budget. A batch that
goes beyond that as well begins anew in the second lane, which has its turn when the first is empty,
and once after every few batches. So clients with ordinary batches do not wait behind those whose
batches are as large as is allowed, however many of these there are.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.seams.threads import Threads
from ottla.storage.admission.work_budget import UNBOUNDED, BudgetSpent, WorkBudget

# In decompressed bytes: some 10 ms with a slow codec.
UNITS_PER_TURN = 4 << 20
# About 50 ms.
FIRST_LANE_UNITS = 24 << 20
# So many batches of the first lane, then one of the second.
SECOND_LANE_EVERY = 8

Result = TypeVar("Result")


class TurnBudget(WorkBudget):
    """A budget that is whole again in the next turn of the loop."""

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


class TooMuchWaits(PeerError):
    """Other clients keep all the memory there is for this: it may be tried again."""

    def __init__(self) -> None:
        message = "too many batches wait for their records to be read"
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


# Raises BudgetSpent if the budget has no room for it; then it may be called again with another.
Work = Callable[[WorkBudget], Result]


class _Piece(NamedTuple):
    work: Callable[[WorkBudget], Any]
    size_bytes: int
    done: "asyncio.Future[Any]"


class RecordWork:
    """The queues of what is done in a thread. `spawn` starts a task that nobody waits for."""

    def __init__(
        self,
        threads: Threads,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        waiting_bytes_max: Callable[[], int],
    ) -> None:
        """`waiting_bytes_max` says how much memory batches may take that wait for their turn."""
        self._threads = threads
        self._spawn = spawn
        self._waiting_bytes_max = waiting_bytes_max
        self._first_lane: deque[_Piece] = deque()
        self._second_lane: deque[_Piece] = deque()
        self._firsts_in_a_row = 0
        self._is_running = False
        self.waiting_bytes = 0

    async def run(self, work: Work[Result], size_bytes: int) -> Result:
        """Does `work`, for which so many bytes are kept, in a thread. TooMuchWaits."""
        is_idle = self.waiting_bytes == 0
        if not is_idle and self.waiting_bytes + size_bytes > self._waiting_bytes_max():
            raise TooMuchWaits
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._first_lane.append(_Piece(work, size_bytes, done))
        self.waiting_bytes += size_bytes
        if not self._is_running:
            self._is_running = True
            self._spawn(self._work_off(), "record work")
        return await done

    async def _work_off(self) -> None:
        try:
            while self._first_lane or self._second_lane:
                if self._is_turn_of_second_lane():
                    self._firsts_in_a_row = 0
                    await self._finish(self._second_lane.popleft(), UNBOUNDED)
                else:
                    self._firsts_in_a_row += 1
                    piece = self._first_lane.popleft()
                    if not await self._finish(piece, WorkBudget(FIRST_LANE_UNITS)):
                        self._second_lane.append(piece)
        finally:
            self._is_running = False

    def _is_turn_of_second_lane(self) -> bool:
        if not self._second_lane:
            return False
        return not self._first_lane or self._firsts_in_a_row >= SECOND_LANE_EVERY

    async def _finish(self, piece: _Piece, budget: WorkBudget) -> bool:
        """Whether there was enough of the budget for it."""
        # Those whose client has gone are passed over.
        if not piece.done.cancelled():
            try:
                result = await self._threads.run(lambda: piece.work(budget))
            except BudgetSpent:
                return False
            except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
                if not piece.done.cancelled():
                    piece.done.set_exception(error)
            else:
                if not piece.done.cancelled():
                    piece.done.set_result(result)
        self.waiting_bytes -= piece.size_bytes
        return True
