"""Ends the process if its event loop stands still, from a thread beside it."""

import asyncio
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

TICKS_PER_STALL = 20
TICK_S_MAX = 1.0


class LoopWatchdog:
    """Counts ticks of its own thread since the loop last ran.

    It does not compare times: a process that was stopped, or a machine that slept, counts one tick
    at most, and its loop gets the chance to run.
    """

    def __init__(self, stall_max_s: float, on_stall: Callable[[], None], *, exit_code: int) -> None:
        """`on_stall` is called in the thread before the process ends."""
        self._tick_s = min(stall_max_s / TICKS_PER_STALL, TICK_S_MAX)
        self._ticks_max = round(stall_max_s / self._tick_s)
        self._on_stall = on_stall
        self._exit_code = exit_code
        self._ticks = 0
        self._is_on = True
        self._task: asyncio.Task[NoReturn] | None = None

    def start(self) -> None:
        """To be called on the loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="loop watchdog")
        threading.Thread(target=self._watch, name="loop watchdog", daemon=True).start()

    def stop(self) -> None:
        """From now on the loop may stand still."""
        self._is_on = False
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> NoReturn:
        """Shows the thread that the loop runs."""
        while True:
            self._ticks = 0
            await asyncio.sleep(self._tick_s)

    def _watch(self) -> None:
        while self._is_on:
            time.sleep(self._tick_s)
            self._ticks += 1
            if self._ticks > self._ticks_max and self._is_on:
                self._end()

    def _end(self) -> None:
        try:
            self._on_stall()
            # All threads: the loop's is the main one.
            faulthandler.dump_traceback(sys.stderr)
        finally:
            # Without the steps of a normal exit, which may wait for the loop.
            os._exit(self._exit_code)
