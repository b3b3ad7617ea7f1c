"""Periodic work on all partitions, in one task: retention, flushes, producer expiry, checkpoints.

It also removes the files of deleted segments after file.delete.delay.ms. It works in slices of a
millisecond, so that requests are served in between.

The steady clock decides what is due. The wall clock, which may be set, is only compared with
record timestamps.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ottla.errors import LogOffline, StorageError
from ottla.replication.append.flusher import Flusher
from ottla.replication.housekeeping.checkpointer import Checkpointer, NewStart
from ottla.replication.housekeeping.disk_watch import DiskWatch
from ottla.replication.housekeeping.expired_segments import Expired, find_expired
from ottla.replication.housekeeping.slices import in_slices
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.seams.clock import Clock
from ottla.seams.threads import Threads
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import retention
from ottla.storage.log.log import Log

ROUND_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TickRules:
    """The broker's settings for periodic work."""

    retention_interval_ms: int
    checkpoint_interval_ms: int
    high_watermark_interval_ms: int
    producer_expiration_ms: int
    disk_reserve_bytes: int


class Removal(NamedTuple):
    """Files to be removed, and the time for it by the steady clock."""

    due_ms: int
    paths: list[str]


class Tick:
    """`run` does not end; `round` is one step of it. `disks` is to be run beside it.

    `problem` is called with a disk fault and its place, `solved` when it is over, `offline` when a
    log directory goes offline.
    """

    def __init__(
        self,
        *,
        replicas: Replicas,
        flusher: Flusher,
        checkpointer: Checkpointer,
        threads: Threads,
        clock: Clock,
        rules: TickRules,
        problem: Callable[[str, Exception], None],
        solved: Callable[[str], None],
        offline: Callable[[str, Exception], None],
    ) -> None:
        self._rules = rules
        self.disks = DiskWatch(
            replicas=replicas,
            threads=threads,
            reserve_bytes=rules.disk_reserve_bytes,
            problem=problem,
            solved=solved,
            offline=offline,
        )
        self._replicas = replicas
        self._flusher = flusher
        self._checkpointer = checkpointer
        self._threads = threads
        self._clock = clock
        self._problem = problem
        self._removals: list[Removal] = []
        self._retained_ms = self._checkpointed_ms = self._steady_ms()
        self._high_watermarks_saved_ms = self._checkpointed_ms

    @property
    def rules(self) -> TickRules:
        return self._rules

    @rules.setter
    def rules(self, rules: TickRules) -> None:
        self._rules = rules
        self.disks.reserve_bytes = rules.disk_reserve_bytes

    async def run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_MS / 1000)
            await self.round()

    async def round(self) -> None:
        """Does everything that is due, once."""
        steady_ms = self._steady_ms()
        retains = steady_ms - self._retained_ms >= self.rules.retention_interval_ms
        if retains:
            self._retained_ms = steady_ms
            await self._retain()
        async for replica in in_slices(list(self._replicas), self._clock):
            log = replica.log
            if log is not None and log.offline is None:
                with self._told_of_faults(replica):
                    if log.flush_is_due() or log.has_unflushed_segments:
                        await self._flusher.flush(log, log.end_offset)
        await self._remove_what_is_due(steady_ms)
        if steady_ms - self._checkpointed_ms >= self.rules.checkpoint_interval_ms:
            self._checkpointed_ms = self._high_watermarks_saved_ms = steady_ms
            await self._checkpoint(self._checkpointer.save)
        elif steady_ms - self._high_watermarks_saved_ms >= self.rules.high_watermark_interval_ms:
            self._high_watermarks_saved_ms = steady_ms
            await self._checkpoint(self._checkpointer.save_high_watermarks)
        await self.disks.mark_offline_logs()

    async def _retain(self) -> None:
        """Drops expired segments and expired producers.

        Decides about all logs first. Then one checkpoint per directory makes the new log start
        offsets durable, in a thread. Only then are segments renamed.
        """
        found: list[Expired] = []
        async for replica in in_slices(list(self._replicas), self._clock):
            log = replica.log
            if log is not None and log.offline is None:
                log.producers.expire(self._clock.wall_ms(), self.rules.producer_expiration_ms)
                expired = find_expired(replica, log, self._clock.wall_ms())
                if expired is not None:
                    found.append(expired)
        for directory in self._replicas.directories.directories:
            here = [each for each in found if self._home_of(each.log) is directory]
            starts = [NewStart(each.log, each.start_offset) for each in here]
            try:
                await self._checkpointer.save_starts(directory, starts)
            except (OSError, StorageError) as error:
                self._checkpoint_failed(directory, error)
        async for each in in_slices(found, self._clock):
            with self._told_of_faults(each.replica):
                self._drop_segments(each)
        # An active segment is never dropped: if all of it has expired it rolls now and is dropped
        # in the next round. This comes last because it needs room on the disk.
        for each in found:
            with self._told_of_faults(each.replica):
                if each.ends_active and each.is_current:
                    # Otherwise the roll would sync the log's directory on the loop.
                    await self._flusher.flush(each.log, each.log.end_offset)
                    each.log.roll()

    def _drop_segments(self, expired: Expired) -> None:
        """Drops the segments below the log start offset, which is durable."""
        replica, log = expired.replica, expired.log
        if not expired.is_current:
            return
        count = retention.below_start(log.summaries(), log_start_offset=log.start_offset)
        if count:
            self.remove_later(replica, log.drop_segments(count))
            # Parked fetches below the new log start offset must be answered, and followers be told.
            replica.wake_all()

    def _home_of(self, log: Log) -> LogDirectory:
        return self._replicas.directories.directory_of(log)

    @contextmanager
    def _told_of_faults(self, replica: Replica) -> Iterator[None]:
        try:
            yield
        except (OSError, LogOffline) as error:
            self._problem(str(replica.name), error)

    def remove_later(self, replica: Replica, paths: list[str]) -> None:
        """Removes files after file.delete.delay.ms, when their readers are done."""
        if paths:
            due_ms = self._steady_ms() + replica.rules.retention.file_delete_delay_ms
            self._removals.append(Removal(due_ms, paths))

    def _steady_ms(self) -> int:
        return self._clock.steady_ns() // 1_000_000

    async def _remove_what_is_due(self, steady_ms: int) -> None:
        for delay_ms, path in self._replicas.take_leftovers():
            self._removals.append(Removal(steady_ms + delay_ms, [path]))
        due = [removal for removal in self._removals if removal.due_ms <= steady_ms]
        self._removals = [removal for removal in self._removals if removal.due_ms > steady_ms]
        for removal in due:
            for path in removal.paths:
                try:
                    # In a thread: freeing a large file takes a while.
                    await self._threads.run(partial(self._replicas.directories.purge, path))
                except OSError as error:
                    # The next start removes it.
                    self._problem(path, error)

    async def _checkpoint(self, save: Callable[[LogDirectory], Awaitable[None]]) -> None:
        for directory in self._replicas.directories.directories:
            if directory.offline is None:
                try:
                    await save(directory)
                except (OSError, StorageError) as error:
                    self._checkpoint_failed(directory, error)

    def _checkpoint_failed(self, directory: LogDirectory, error: Exception) -> None:
        if directory.offline is None:
            self._problem(directory.path, error)
        else:
            self.disks.report_offline(directory, directory.offline)
