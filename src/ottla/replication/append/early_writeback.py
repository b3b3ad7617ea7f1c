"""Early writeback: the disk begins with what was appended before an append has to wait for it."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from ottla.seams.files import File
from ottla.seams.threads import Threads

# Fewer than there are threads: a sync or a cold read finds one that is free.
UNDER_WAY_MAX = 2

Spawn = Callable[[Coroutine[Any, Any, None], str], None]


class EarlyWriteback:
    """At most one a file is under way. A hint: nobody hears of one that failed."""

    __slots__ = ("_paths", "_spawn", "_threads")

    def __init__(self, threads: Threads, spawn: Spawn) -> None:
        self._threads = threads
        self._spawn = spawn
        self._paths: set[str] = set()

    def start(self, file: File, position: int, size: int) -> bool:
        """Has a piece of a file written soon; False if it is to be asked for again later."""
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
