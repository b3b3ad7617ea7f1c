"""Work beside the event loop: what blocks (an fsync, a cold read), never what decides."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Threads(Protocol):
    async def run(self, work: Callable[[], Result]) -> Result:
        """Does `work` outside the loop; its result or exception is the caller's."""
        ...

    def close(self) -> None:
        """Waits for what is running; nothing can be run afterwards."""
        ...


class RealThreads:
    """A fixed pool: `workers_max` pieces of work at once, the rest wait in line."""

    __slots__ = ("_pool",)

    def __init__(self, workers_max: int = 4) -> None:
        self._pool = ThreadPoolExecutor(workers_max, thread_name_prefix="ottla")

    async def run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
