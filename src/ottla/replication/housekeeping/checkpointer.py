"""Checkpoints in a thread: new start offsets of many logs of a directory are written once."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any, NamedTuple

from ottla.errors import StorageError
from ottla.seams.threads import Threads
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.full_disk import FULL
from ottla.storage.log.log import Log


class NewStart(NamedTuple):
    """Where a log is to start."""

    log: Log
    offset: int

    @property
    def is_possible(self) -> bool:
        log = self.log
        return log.offline is None and log.start_offset < self.offset <= log.end_offset


class Checkpointer:
    """At most one checkpoint of a directory is under way; who comes meanwhile shares the next."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        # By path: there are as many as log.dirs.
        self._turns: dict[str, asyncio.Lock] = {}

    async def forget_deleted(self, directory: LogDirectory, begins: Callable[[], None]) -> None:
        """What was deleted before `begins` is called is forgotten, durably, on return.

        If the disk is full it is left to a later checkpoint. If it fails the directory is offline.
        """
        async with self._turn(directory):
            begins()
            try:
                await self._run(directory)
            except (OSError, StorageError) as error:
                is_full = isinstance(error, OSError) and error.errno in FULL
                if not is_full and directory.offline is None:
                    directory.fail(error)

    async def save(self, directory: LogDirectory) -> None:
        """What the directory's logs are like now is durable on return.

        OSError, StorageError: unless the disk is full, the directory is offline then.
        """
        async with self._turn(directory):
            await self._run(directory)

    async def save_starts(self, directory: LogDirectory, starts: Collection[NewStart]) -> None:
        """The logs start where they shall, durably. OSError or StorageError, and none of them does.

        Left out are logs that are gone, or too short, by the time it is their turn.
        """
        async with self._turn(directory):
            possible = [start for start in starts if start.is_possible]
            if not possible:
                return
            for log, offset in possible:
                log.plan_start(offset)
            try:
                await self._run(directory)
            except (OSError, StorageError):
                for log, _ in possible:
                    log.planned_start = None
                raise

    async def _run(self, directory: LogDirectory) -> None:
        checkpoint = directory.begin_checkpoint()
        try:
            await self._threads.run(checkpoint.run)
        except OSError as error:
            directory.fail_unless_full(error)
            raise
        directory.end_checkpoint(checkpoint)

    def _turn(self, directory: LogDirectory) -> asyncio.Lock:
        return self._turns.setdefault(directory.path, asyncio.Lock())


class DeletedPartitions:
    """Has directories forget what was deleted: one checkpoint for all that goes until it begins."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        """`spawn` starts a task that nobody waits for."""
        self._checkpointer = checkpointer
        self._spawn = spawn
        # The directories that wait for their turn, by path.
        self._waiting: set[str] = set()

    def forget(self, directory: LogDirectory) -> None:
        """Something was deleted here."""
        path = directory.path
        if path not in self._waiting:
            self._waiting.add(path)
            begins = partial(self._waiting.discard, path)
            self._spawn(self._checkpointer.forget_deleted(directory, begins), "forget deleted")
