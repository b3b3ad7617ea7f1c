"""Spreads long steps of requests over turns of the event loop, one step per turn."""

import asyncio
from collections import deque


class TurnQueue:
    """The steps run in the order of arrival. Between two of them the loop reads its sockets.

    So a short request that arrives behind a crowd of long ones waits for one of them, not for all.
    """

    __slots__ = ("_is_taken", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Whether a step runs, or has run, in this turn.
        self._is_taken = False

    async def enter(self) -> None:
        """Waits for a turn without another step. The caller's step begins on return."""
        loop = asyncio.get_running_loop()
        if not self._is_taken:
            self._is_taken = True
            loop.call_soon(self._end_turn)
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _end_turn(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                # Called after the step, which is scheduled already.
                asyncio.get_running_loop().call_soon(self._end_turn)
                return
        self._is_taken = False
