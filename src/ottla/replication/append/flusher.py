"""Flushing in a thread: many who wait for one log share one fsync."""

import asyncio
from weakref import WeakKeyDictionary

from ottla.seams.threads import Threads
from ottla.storage.log.leader_epoch_file import NoRoomForEpochs
from ottla.storage.log.log import Log


class Flusher:
    """At most one flush of a log is under way; whoever comes meanwhile shares the next one."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        # By log and not by directory: a topic made anew does not wait for the deleted one's flush.
        self._turns: WeakKeyDictionary[Log, asyncio.Lock] = WeakKeyDictionary()

    def __len__(self) -> int:
        """How many logs have a turn: none that is gone."""
        return len(self._turns)

    async def flush(self, log: Log, offset: int) -> None:
        """What lies below `offset` is durable on return. LogOffline if the disk failed, OSError
        if it is full."""
        turn = self._turns.get(log)
        if turn is None:
            turn = self._turns[log] = asyncio.Lock()
        async with turn:
            if log.recovery_point >= offset:
                return
            flush = log.begin_flush()
            try:
                await self._threads.run(flush.run)
            except NoRoomForEpochs:
                raise
            except OSError as error:
                log.fail(error)
            log.end_flush(flush)
