"""Flushes logs in a thread. Requests that wait for the same log share one fsync."""

import asyncio
from weakref import WeakKeyDictionary

from ottla.seams.threads import Threads
from ottla.storage.log.leader_epoch_file import NoRoomForEpochs
from ottla.storage.log.log import Log


class Flusher:
    """Runs at most one flush per log. Callers that come during a flush share the next one."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        # By log and not by directory: a topic made anew does not wait for the deleted one's flush.
        self._turns: WeakKeyDictionary[Log, asyncio.Lock] = WeakKeyDictionary()

    def __len__(self) -> int:
        """The number of logs that have a lock. Logs that are gone have none."""
        return len(self._turns)

    async def flush(self, log: Log, offset: int) -> None:
        """Makes all records below `offset` durable. LogOffline if the disk failed, OSError if it is
        full."""
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
