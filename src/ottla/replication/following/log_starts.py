"""Followers take over the log start offsets of their leaders, many with one checkpoint."""

import asyncio
from collections.abc import Callable

from ottla.errors import StorageError
from ottla.replication.housekeeping.checkpointer import Checkpointer, NewStart
from ottla.replication.replica import Replica
from ottla.storage.directory.directories import LogDirectories


class FollowedStarts:
    """`run` does not end. `on_saved` is called with each replica whose log has a new start."""

    def __init__(
        self,
        directories: LogDirectories,
        checkpointer: Checkpointer,
        on_saved: Callable[[Replica], None],
        problem: Callable[[str, Exception], None],
    ) -> None:
        self._directories = directories
        self._checkpointer = checkpointer
        self._on_saved = on_saved
        self._problem = problem
        self._starts: dict[Replica, int] = {}
        self._is_due = asyncio.Event()

    def put(self, replica: Replica, offset: int) -> None:
        """The leader's log starts at `offset`, which is beyond the start of this one."""
        if self._starts.get(replica) != offset:
            self._starts[replica] = offset
            self._is_due.set()

    async def run(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            starts, self._starts = self._starts, {}
            await self._save(starts)

    async def _save(self, starts: dict[Replica, int]) -> None:
        by_directory: dict[str, list[NewStart]] = {}
        for replica, offset in starts.items():
            if replica.log is not None:
                home = self._directories.directory_of(replica.log)
                by_directory.setdefault(home.path, []).append(NewStart(replica.log, offset))
        for directory in self._directories.directories:
            try:
                await self._checkpointer.save_starts(
                    directory, by_directory.get(directory.path, ())
                )
            except (OSError, StorageError) as error:
                # Nothing is lost. The leader's next answer brings it again.
                self._problem(directory.path, error)
        for replica in starts:
            replica.wake_all()
            self._on_saved(replica)
