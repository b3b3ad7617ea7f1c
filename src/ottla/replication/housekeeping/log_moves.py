"""Moves logs between the log directories of this broker (AlterReplicaLogDirs), one at a time.

A log is copied in slices while it is served, then swapped (`storage/directory/future_log`). A copy
whose original is truncated meanwhile is begun anew.
"""

import asyncio
from collections.abc import Callable

from ottla.errors import LogOffline, PeerError, StorageError
from ottla.replication.append.flusher import Flusher
from ottla.replication.housekeeping.checkpointer import Checkpointer
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.seams.entropy import Entropy
from ottla.seams.threads import Threads
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.full_disk import FULL
from ottla.storage.directory.future_log import FutureLog

# The bytes that are copied before other tasks have their turn.
SLICE_BYTES = 256 << 10
# The slices that are copied right before the swap, which must not be interrupted: a few ms.
LAST_SLICES_MAX = 16
# After so many attempts more are copied, and the last flush runs on the loop, once: the log grows
# or is flushed all the time.
SWAP_ATTEMPTS_MAX = 5
LATE_SLICES_MAX = 64
RETRY_S = 5.0


class MoveFailed(Exception):
    """The log stays where it is."""


class LogMoves:
    """`run` does not end. `problem` is called with a move that failed, and why."""

    def __init__(
        self,
        *,
        replicas: Replicas,
        flusher: Flusher,
        checkpointer: Checkpointer,
        threads: Threads,
        entropy: Entropy,
        bytes_per_second: Callable[[], int],
        remove_later: Callable[[Replica, list[str]], None],
        problem: Callable[[str, Exception], None],
    ) -> None:
        self._replicas = replicas
        self._flusher = flusher
        self._checkpointer = checkpointer
        self._threads = threads
        self._entropy = entropy
        self._bytes_per_second = bytes_per_second
        self._remove_later = remove_later
        self._problem = problem
        # A later request for the same replica replaces an earlier one.
        self._targets: dict[Replica, LogDirectory] = {}
        self._is_due = asyncio.Event()

    def __len__(self) -> int:
        """The number of moves that are waiting or under way."""
        return len(self._targets)

    def request(self, replica: Replica, target: LogDirectory) -> None:
        """Moves the log of a replica, or cancels its move if the log is in `target` already."""
        if replica.log is not None and self._home_of(replica) is target:
            self._targets.pop(replica, None)
        elif self._targets.get(replica) is not target:
            self._targets[replica] = target
            self._is_due.set()

    def resume(self) -> None:
        """Requests the moves that the last stop interrupted. Their copies are begun anew."""
        for directory in self._replicas.directories.directories:
            for name, path in directory.unfinished_copies.items():
                replica = self._replicas.by_key.get(name)
                if replica is not None and replica.log is not None:
                    self.request(replica, directory)
                    self._remove_later(replica, [path])
                elif directory.offline is None:
                    directory.purge(path)
            directory.unfinished_copies.clear()

    async def run(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            while self._targets:
                replica, target = next(iter(self._targets.items()))
                try:
                    await self._move(replica, target)
                except (MoveFailed, PeerError, StorageError, OSError) as error:
                    self._problem(str(replica.name), error)
                if self._targets.get(replica) is target:
                    del self._targets[replica]

    # One move

    def _is_wanted(self, replica: Replica, target: LogDirectory) -> bool:
        return (
            self._targets.get(replica) is target
            and replica.log is not None
            and target.offline is None
        )

    async def _move(self, replica: Replica, target: LogDirectory) -> None:
        while self._is_wanted(replica, target):
            log = replica.log
            if log is None or log.offline is not None:
                raise MoveFailed(f"the log of {replica.name} is offline")
            if self._home_of(replica) is target:
                return
            try:
                future = FutureLog(
                    replica.name,
                    replica.partition.topic_id,
                    log,
                    self._home_of(replica),
                    target,
                    self._entropy.token(16).hex(),
                )
            except OSError as error:
                await self._wait_for_room(replica, error)
                continue
            try:
                is_done = await self._copy_and_swap(replica, future)
            finally:
                if target.copies.get(replica.name) is future.log:
                    self._remove_later(replica, [future.give_up()])
            if is_done:
                return

    async def _copy_and_swap(self, replica: Replica, future: FutureLog) -> bool:
        """False if the copy must be begun anew, or is not wanted any more."""
        attempts = 0
        while self._goes_on(replica, future):
            try:
                if await self._copy(replica, future):
                    continue
                attempts += 1
                if await self._swap(replica, future, attempts):
                    return True
            except LogOffline:
                if future.log.offline is not None:
                    raise
                return False
            except OSError as error:
                await self._wait_for_room(replica, error)
        return False

    def _goes_on(self, replica: Replica, future: FutureLog) -> bool:
        return (
            self._is_wanted(replica, future.target)
            and replica.log is future.source
            and not future.is_void
        )

    async def _copy(self, replica: Replica, future: FutureLog) -> bool:
        """Copies the next slice. False if there is none."""
        records = future.next_slice(SLICE_BYTES)
        if records is None:
            return False
        content = await self._threads.run(records.read)
        if self._goes_on(replica, future) and not records.is_cut:
            future.take(content)
        await asyncio.sleep(len(content) / self._bytes_per_second())
        return True

    async def _swap(self, replica: Replica, future: FutureLog, attempts: int) -> bool:
        """Makes the copy durable, then swaps it in if it has all records by then."""
        log = future.log
        future.prepare()
        start_offset = log.start_offset
        await self._flusher.flush(log, log.end_offset)
        if log.first_sync is not None and self._goes_on(replica, future):
            # An empty log has nothing to flush, but names.
            flush = log.begin_flush()
            await self._threads.run(flush.run)
            log.end_flush(flush)
        await self._checkpointer.save(future.target)
        if not self._goes_on(replica, future):
            return False
        future.saved_start = start_offset
        is_late = attempts > SWAP_ATTEMPTS_MAX
        for _ in range(LATE_SLICES_MAX if is_late else LAST_SLICES_MAX):
            # What came meanwhile is in the page cache.
            records = future.next_slice(SLICE_BYTES)
            if records is None:
                break
            future.take(records.read())
        if is_late:
            log.flush()
        if not future.is_ready:
            return False
        directories = self._replicas.directories
        directories.note_placement(replica.name, replica.partition.topic_id, future.target)
        replica.log = future.swap()
        replica.wake_all()
        await self._finish(replica, future)
        return True

    async def _finish(self, replica: Replica, future: FutureLog) -> None:
        """Removes the original once the swap is durable. A start finishes what fails here."""
        origin = self._replicas.directories.directory_of(future.source)
        await self._threads.run(future.confirm)
        await self._checkpointer.save(future.target)
        self._remove_later(replica, [future.remove_original()])
        await self._checkpointer.save(origin)
        await self._threads.run(future.finish)

    async def _wait_for_room(self, replica: Replica, error: OSError) -> None:
        if error.errno not in FULL:
            raise error
        self._problem(str(replica.name), error)
        await asyncio.sleep(RETRY_S)

    def _home_of(self, replica: Replica) -> LogDirectory:
        if replica.log is None:
            raise RuntimeError(f"{replica.name} has no log")
        return self._replicas.directories.directory_of(replica.log)
