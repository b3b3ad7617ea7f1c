"""Runs checkpoints of log directories in a thread; one checkpoint serves many logs."""

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
    """The log start offset that a log is to have."""

    log: Log
    offset: int

    @property
    def is_possible(self) -> bool:
        log = self.log
        return log.offline is None and log.start_offset < self.offset <= log.end_offset


class Checkpointer:
    """Runs one checkpoint per directory at a time."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        # By path: there are as many as log.dirs.
        self._turns: dict[str, asyncio.Lock] = {}

    async def forget_deleted(self, directory: LogDirectory, begins: Callable[[], None]) -> None:
        """Removes partitions that were deleted before `begins` is called from the checkpoint files.

        A full disk leaves this to a later checkpoint. Any other fault takes the directory offline.
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
        """Saves the offsets of all logs of the directory.

        OSError, StorageError: unless the disk is full, the directory is offline then.
        """
        async with self._turn(directory):
            await self._run(directory)

    async def save_high_watermarks(self, directory: LogDirectory) -> None:
        """Saves the high watermarks of all logs of the directory, if one has moved.

        OSError, StorageError: unless the disk is full, the directory is offline then.
        """
        async with self._turn(directory):
            checkpoint = directory.begin_high_watermarks()
            if checkpoint is not None:
                await self._run_task(directory, checkpoint.run)
                directory.end_high_watermarks(checkpoint)

    async def save_starts(self, directory: LogDirectory, starts: Collection[NewStart]) -> None:
        """Makes new log start offsets durable and puts them in force.

        After OSError or StorageError none of them is in force. Logs that are offline or too short
        by then are left out.
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
        await self._run_task(directory, checkpoint.run)
        directory.end_checkpoint(checkpoint)

    async def _run_task(self, directory: LogDirectory, task: Callable[[], None]) -> None:
        try:
            await self._threads.run(task)
        except OSError as error:
            directory.fail_unless_full(error)
            raise

    def _turn(self, directory: LogDirectory) -> asyncio.Lock:
        return self._turns.setdefault(directory.path, asyncio.Lock())


class DeletedPartitions:
    """Removes deleted partitions from checkpoint files, many of them with one checkpoint."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        """`spawn` starts a background task."""
        self._checkpointer = checkpointer
        self._spawn = spawn
        # The paths of directories whose checkpoint has not begun.
        self._waiting: set[str] = set()

    def forget(self, directory: LogDirectory) -> None:
        """A partition of this directory was deleted."""
        path = directory.path
        if path not in self._waiting:
            self._waiting.add(path)
            begins = partial(self._waiting.discard, path)
            self._spawn(self._checkpointer.forget_deleted(directory, begins), "forget deleted")
