"""Housekeeping for all partitions: one task, a slice at a time, no timer for any of them.

Retention, flushes that are due, expired producers, files whose readers have let go, checkpoints,
and a look at the disk's free space. After a millisecond of it others have their turn.

What is due is decided by the steady clock. The wall clock, which may be set, is only compared with
the timestamps of records.
"""

import asyncio
from collections.abc import Callable, Iterator
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
    """How often, and from when on."""

    retention_interval_ms: int
    checkpoint_interval_ms: int
    producer_expiration_ms: int
    disk_reserve_bytes: int


class Removal(NamedTuple):
    """Files to be removed, and when, by the steady clock."""

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
        """Everything that is due, once."""
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
            self._checkpointed_ms = steady_ms
            await self._checkpoint()
        await self.disks.mark_offline_logs()

    async def _retain(self) -> None:
        """Drops the segments that have had their time, and forgets producers that have had theirs.

        All that is to go is decided first; then the new starts of a directory's logs are made
        durable together, in a thread; and only then are segments renamed.
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
        # The active segment never goes: in a topic that has fallen silent it ends here, and goes
        # the next time. Last, for it needs room on the disk, which the others make.
        for each in found:
            with self._told_of_faults(each.replica):
                if each.ends_active and each.is_current:
                    # Else the roll would have to sync what the log stands on, on the loop.
                    await self._flusher.flush(each.log, each.log.end_offset)
                    each.log.roll()

    def _drop_segments(self, expired: Expired) -> None:
        """Those that lie wholly before the log's start, which is durable."""
        replica, log = expired.replica, expired.log
        if not expired.is_current:
            return
        count = retention.below_start(log.summaries(), log_start_offset=log.start_offset)
        if count:
            self.remove_later(replica, log.drop_segments(count))
            # Whoever waits below the new start must hear of it.
            replica.waiting.wake_all()

    def _home_of(self, log: Log) -> LogDirectory:
        return self._replicas.directories.home_of(log)

    @contextmanager
    def _told_of_faults(self, replica: Replica) -> Iterator[None]:
        try:
            yield
        except (OSError, LogOffline) as error:
            self._problem(str(replica.name), error)

    def remove_later(self, replica: Replica, paths: list[str]) -> None:
        """Removes files once those who read them have had their time."""
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
                    # In a thread: what a large file takes is not freed in no time.
                    await self._threads.run(partial(self._replicas.directories.purge, path))
                except OSError as error:
                    # It is left to the next start.
                    self._problem(path, error)

    async def _checkpoint(self) -> None:
        for directory in self._replicas.directories.directories:
            if directory.offline is None:
                try:
                    await self._checkpointer.save(directory)
                except (OSError, StorageError) as error:
                    self._checkpoint_failed(directory, error)

    def _checkpoint_failed(self, directory: LogDirectory, error: Exception) -> None:
        if directory.offline is None:
            self._problem(directory.path, error)
        else:
            self.disks.report_offline(directory, directory.offline)
