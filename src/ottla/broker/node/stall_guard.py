"""Notices that the event loop stood still for longer than a session of the metadata store lasts.

A process that was stopped, or a machine that slept, may have been deposed meanwhile, and does not
know it yet. The requests that came in the meantime are the first that it handles.
"""

import asyncio
from collections.abc import Callable
from typing import NoReturn

BEATS_PER_SESSION = 10
BEAT_S_MAX = 1.0
NEVER_NS = 2**63


class StallGuard:
    """`run` sets a deadline again and again; `now_ns` finds that it has passed.

    Whoever handles a request reads the clock by `now_ns` first.
    """

    def __init__(
        self,
        steady_ns: Callable[[], int],
        session_timeout_ms: Callable[[], int | None],
        on_stall: Callable[[int], None],
    ) -> None:
        """`on_stall` is called with the milliseconds, before the request is handled."""
        self._steady_ns = steady_ns
        self._session_timeout_ms = session_timeout_ms
        self._on_stall = on_stall
        self._beat_ns = steady_ns()
        self._due_ns = NEVER_NS

    def now_ns(self) -> int:
        now_ns = self._steady_ns()
        if now_ns > self._due_ns:
            stalled_ms = (now_ns - self._beat_ns) // 1_000_000
            self._beat(now_ns)
            self._on_stall(stalled_ms)
        return now_ns

    async def run(self) -> NoReturn:
        while True:
            self._beat(self.now_ns())
            timeout_ms = self._session_timeout_ms() or 0
            await asyncio.sleep(min(BEAT_S_MAX, timeout_ms / 1e3 / BEATS_PER_SESSION) or BEAT_S_MAX)

    def _beat(self, now_ns: int) -> None:
        self._beat_ns = now_ns
        timeout_ms = self._session_timeout_ms()
        self._due_ns = NEVER_NS if timeout_ms is None else now_ns + timeout_ms * 1_000_000
