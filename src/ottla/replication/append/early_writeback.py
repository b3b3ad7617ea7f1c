"""Starts the writeback of appended data early, so that no append waits for the page cache."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from ottla.seams.files import File
from ottla.seams.threads import Threads

# Fewer than there are threads, so that a sync or a cold read finds a free one.
UNDER_WAY_MAX = 2

Spawn = Callable[[Coroutine[Any, Any, None], str], object]


class EarlyWriteback:
    """Runs at most one writeback per file, in a thread. Faults are ignored: a sync reports them."""

    __slots__ = ("_paths", "_spawn", "_threads")

    def __init__(self, threads: Threads, spawn: Spawn) -> None:
        self._threads = threads
        self._spawn = spawn
        self._paths: set[str] = set()

    def start(self, file: File, position: int, size: int) -> bool:
        """Starts the writeback of a range of a file. False if all threads for it are busy."""
        if file.path in self._paths or len(self._paths) >= UNDER_WAY_MAX:
            return False
        self._paths.add(file.path)
        self._spawn(self._run(file, position, size), "writeback")
        return True

    async def _run(self, file: File, position: int, size: int) -> None:
        try:
            # What the disk could not take, a sync will report.
            with suppress(OSError):
                await self._threads.run(lambda: file.start_writeback(position, size))
        finally:
            self._paths.discard(file.path)
