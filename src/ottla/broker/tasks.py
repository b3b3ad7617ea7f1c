"""The background tasks of a node: each has a name and a parent, and no failure is lost."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Tasks:
    """Calls `on_fault`, which ends the node, if a task fails. Closing cancels all tasks."""

    def __init__(self, on_fault: Callable[[Exception], None]) -> None:
        self._on_fault = on_fault
        # A dict, since it keeps an order.
        self._running: dict[asyncio.Task[Any], None] = {}

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._done)
        return task

    async def close(self) -> None:
        """Cancels all tasks and waits until they have ended."""
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
