"""The background work of a node: every task has a name and a parent, and none fails unheard."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Tasks:
    """A task that fails tells the parent, which ends the node; closing ends all of them."""

    def __init__(self, on_fault: Callable[[Exception], None]) -> None:
        self._on_fault = on_fault
        # A dict for its order, which a set would not have.
        self._running: dict[asyncio.Task[Any], None] = {}

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._done)

    async def close(self) -> None:
        """Cancels what runs and waits until it has ended."""
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled():
            error = task.exception()
            if isinstance(error, Exception):
                self._on_fault(error)
