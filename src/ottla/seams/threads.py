"""Threads for calls that block, such as an fsync or a cold read. Decisions stay on the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Threads(Protocol):
    async def run(self, work: Callable[[], Result]) -> Result:
        """Runs `work` in a thread, and returns its result or raises its exception."""
        ...

    def close(self) -> None:
        """Waits for running work. No work can be started afterwards."""
        ...


class SameThread:
    """Runs work in the calling thread, for commands that do one thing at a time."""

    __slots__ = ()

    async def run(self, work: Callable[[], Result]) -> Result:
        return work()

    def close(self) -> None:
        """Nothing to wait for."""


class RealThreads:
    """A fixed pool of `workers_max` threads; further work waits in its queue."""

    __slots__ = ("_pool",)

    def __init__(self, workers_max: int = 4) -> None:
        self._pool = ThreadPoolExecutor(workers_max, thread_name_prefix="ottla")

    async def run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
