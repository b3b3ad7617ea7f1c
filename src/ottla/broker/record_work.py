"""Work on the records of clients: a little of it on the event loop, all else in a thread.

To unfold, read and compress records takes as long as a client makes it take. Each turn of the loop
has a budget for it. What goes beyond that is done in a thread, one batch at a time, in the order in
which the batches came: so a client with a thousand of them holds up nobody but itself for longer
than one of them takes, and memory holds one unfolded batch.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.seams.threads import Threads
from ottla.storage.work_budget import WorkBudget

# In decompressed bytes: some 10 ms with a slow codec.
UNITS_PER_TURN = 4 << 20

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


class _Piece(NamedTuple):
    work: Callable[[], Any]
    size_bytes: int
    done: "asyncio.Future[Any]"


class RecordWork:
    """The queue of what is done in a thread. `spawn` starts a task that nobody waits for."""

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
        self._waiting: deque[_Piece] = deque()
        self._is_running = False
        self.waiting_bytes = 0

    async def run(self, work: Callable[[], Result], size_bytes: int) -> Result:
        """Does `work`, for which so many bytes are kept, in a thread. TooMuchWaits."""
        if self._waiting and self.waiting_bytes + size_bytes > self._waiting_bytes_max():
            raise TooMuchWaits
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Piece(work, size_bytes, done))
        self.waiting_bytes += size_bytes
        if not self._is_running:
            self._is_running = True
            self._spawn(self._work_off(), "record work")
        return await done

    async def _work_off(self) -> None:
        try:
            while self._waiting:
                piece = self._waiting.popleft()
                # Those whose client has gone are passed over.
                if not piece.done.cancelled():
                    await self._do(piece)
                self.waiting_bytes -= piece.size_bytes
        finally:
            self._is_running = False

    async def _do(self, piece: _Piece) -> None:
        try:
            result = await self._threads.run(piece.work)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            if not piece.done.cancelled():
                piece.done.set_exception(error)
        else:
            if not piece.done.cancelled():
                piece.done.set_result(result)
