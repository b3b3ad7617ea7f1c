"""Cold pieces of logs, read in a thread so that the loop finds them in memory."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from ottla.errors import LogOffline
from ottla.seams.threads import Threads
from ottla.storage.log.cold_read import COLD_READS_MAX, ColdBytes, ColdRead
from ottla.storage.log.log import Log

# Readers whose pieces are read at a time: the other threads are for those who write.
READERS_MAX = 2

Found = TypeVar("Found")


class ColdPiece(NamedTuple):
    """What a look-up in a log has to wait for."""

    log: Log
    needed: ColdBytes


class ColdReads:
    """Reads what look-ups stopped at; those who come when others are served wait in line."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._turns = asyncio.Semaphore(READERS_MAX)

    async def warm(self, pieces: Sequence[ColdPiece]) -> None:
        """The pieces are in memory on return. A log whose disk cannot read them is offline."""
        async with self._turns:
            faults = await self._threads.run(lambda: [_fault(piece.needed) for piece in pieces])
        for piece, fault in zip(pieces, faults, strict=True):
            if fault is not None and piece.log.offline is None:
                with suppress(LogOffline):
                    piece.log.fail(fault)

    async def look(self, log: Log, look_up: Callable[[bool], Found]) -> Found:
        """What a look-up finds that is told whether it may look at what is warm only."""
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
