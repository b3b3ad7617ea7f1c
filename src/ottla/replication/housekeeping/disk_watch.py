"""Watches the log directories: free space against the disk reserve, and directories that fail.

A directory below the reserve refuses produces until there is room again. A directory that failed,
or was removed or replaced, is reported once, and its logs are marked for recovery.
"""

import asyncio
from collections.abc import Callable

from ottla.errors import StorageError
from ottla.replication.replicas import Replicas
from ottla.seams.threads import Threads
from ottla.storage.directory.directory import LogDirectory

WATCH_MS = 1_000
# The interval where less than SCARCE_BYTES is left above the reserve. Producers may send as much as
# that in a second.
SCARCE_WATCH_MS = 50
SCARCE_BYTES = 1 << 30
DISK_RESERVE = "disk reserve"


class DiskWatch:
    """`run` does not end.

    `problem` and `solved` are called when a disk falls below its reserve or recovers, `offline`
    when a log directory goes offline.
    """

    def __init__(
        self,
        *,
        replicas: Replicas,
        threads: Threads,
        reserve_bytes: int,
        problem: Callable[[str, Exception], None],
        solved: Callable[[str], None],
        offline: Callable[[str, Exception], None],
    ) -> None:
        # Replaced when the setting changes.
        self.reserve_bytes = reserve_bytes
        # By path of a directory that is online, as of the last check.
        self.free_bytes: dict[str, int] = {}
        self._replicas = replicas
        self._threads = threads
        self._problem = problem
        self._solved = solved
        self._offline = offline
        # The paths of offline directories that were reported, and of those whose logs are marked.
        self._reported: set[str] = set()
        self._marked: set[str] = set()

    async def run(self) -> None:
        """Checks at once: a disk that is full at the start gets no writes."""
        while True:
            self.check()
            await asyncio.sleep((SCARCE_WATCH_MS if self._is_room_scarce else WATCH_MS) / 1000)

    @property
    def _is_room_scarce(self) -> bool:
        """Whether a disk may fall far below its reserve before the next check."""
        scarce_bytes = self.reserve_bytes + SCARCE_BYTES
        return self.reserve_bytes > 0 and (
            min(self.free_bytes.values(), default=scarce_bytes) < scarce_bytes
        )

    def check(self) -> None:
        """Looks at every directory once."""
        for directory in self._replicas.directories.directories:
            directory.check_in_place()
            if directory.offline is None:
                self._check_room(directory)
            else:
                self.report_offline(directory, directory.offline)

    def _check_room(self, directory: LogDirectory) -> None:
        path, full = directory.path, self._replicas.directories.full
        try:
            free_bytes = self.free_bytes[path] = directory.files.free_bytes(path)
        except OSError as error:
            self._problem(path, error)
            return
        if free_bytes < self.reserve_bytes:
            is_news = path not in full
            full[path] = (
                f"{path}: {free_bytes} bytes free, {self.reserve_bytes} are kept in reserve"
            )
            if is_news:
                self._problem(f"{DISK_RESERVE} of {path}", StorageError(full[path]))
        elif full.pop(path, None) is not None:
            self._solved(f"{DISK_RESERVE} of {path}")

    def report_offline(self, directory: LogDirectory, error: Exception) -> None:
        """Reports a directory once, whatever took it offline."""
        if directory.path in self._reported:
            return
        self._reported.add(directory.path)
        self.free_bytes.pop(directory.path, None)
        self._replicas.directories.full.pop(directory.path, None)
        self._offline(directory.path, error)
        for replica in self._replicas.all:
            log = replica.log
            if log is not None and self._replicas.directories.directory_of(log) is directory:
                # Parked requests must be answered with the fault.
                replica.waiting.wake_all()

    async def mark_offline_logs(self) -> None:
        """Marks logs for recovery in a thread: there may be thousands, on a disk that fails."""
        for directory in self._replicas.directories.directories:
            if directory.offline is not None and directory.path not in self._marked:
                self._marked.add(directory.path)
                await self._threads.run(directory.mark_logs_unsynced)
