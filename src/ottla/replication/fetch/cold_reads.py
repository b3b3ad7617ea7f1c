"""Reads parts of logs that are not in the page cache, in a thread instead of on the loop."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from ottla.errors import LogOffline
from ottla.seams.threads import Threads
from ottla.storage.log.cold_read import COLD_READS_MAX, ColdBytes, ColdRead
from ottla.storage.log.log import Log

# Requests that are served at the same time. The other threads are left to syncs.
READERS_MAX = 2

Found = TypeVar("Found")


class ColdPiece(NamedTuple):
    """Bytes of a log that a look-up needs and that are not in the page cache."""

    log: Log
    needed: ColdBytes


class ColdReads:
    """Reads the bytes that look-ups need. At most READERS_MAX requests are served at a time."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._turns = asyncio.Semaphore(READERS_MAX)

    async def warm(self, pieces: Sequence[ColdPiece]) -> None:
        """Reads the pieces into the page cache. A log goes offline if its disk cannot read them."""
        async with self._turns:
            faults = await self._threads.run(lambda: [_fault(piece.needed) for piece in pieces])
        for piece, fault in zip(pieces, faults, strict=True):
            if fault is not None and piece.log.offline is None:
                with suppress(LogOffline):
                    piece.log.fail(fault)

    async def look(self, log: Log, look_up: Callable[[bool], Found]) -> Found:
        """The result of `look_up(warm_only)`, repeated until all bytes that it needs are warm."""
        for tries in range(COLD_READS_MAX):
            try:
                return look_up(True)
            except ColdRead as cold:
                piece = ColdPiece(log, cold.needed.after(tries))
            await self.warm([piece])
        return look_up(False)


def _fault(needed: ColdBytes) -> OSError | None:
    try:
        needed.warm()
    except OSError as error:
        return error
    return None
