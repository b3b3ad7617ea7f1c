"""A deadline that is set often and met seldom, such as the timeout of each request on a connection.

A timer of the event loop per request would cost more than the rest of a small request. Here one
timer is started; if it fires before the deadline, which has been moved since, it is started again.
"""

import asyncio
from collections.abc import Callable


class Deadline:
    """Calls `on_due` once when the deadline has passed. `set` and `clear` may be repeated."""

    __slots__ = ("_due_s", "_fires_s", "_on_due", "_timer")

    def __init__(self, on_due: Callable[[], object]) -> None:
        self._on_due = on_due
        # By the clock of the event loop.
        self._due_s: float | None = None
        self._fires_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """The deadline is in so many seconds."""
        loop = asyncio.get_running_loop()
        due_s = self._due_s = loop.time() + seconds
        if self._timer is None or due_s < self._fires_s:
            self._start(loop, due_s)

    def clear(self) -> None:
        """There is no deadline. A timer may go on, which then does nothing."""
        self._due_s = None

    def close(self) -> None:
        """No timer is left."""
        self._due_s = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, loop: asyncio.AbstractEventLoop, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fires_s = at_s
        self._timer = loop.call_at(at_s, self._fired)

    def _fired(self) -> None:
        self._timer = None
        due_s = self._due_s
        if due_s is None:
            return
        if due_s > self._fires_s:
            self._start(asyncio.get_running_loop(), due_s)
            return
        self._due_s = None
        self._on_due()
