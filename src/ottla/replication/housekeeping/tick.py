"""Housekeeping for all partitions: one task, a slice at a time, no timer for any of them.

Retention, flushes that are due, expired producers, files whose readers have let go, checkpoints,
and a look at the disk's free space. After a millisecond of it others have their turn.

What is due is decided by the steady clock. The wall clock, which may be set, is only compared with
the timestamps of records.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from ottla.errors import LogOffline, StorageError
from ottla.replication.append.flusher import Flusher
from ottla.replication.housekeeping.checkpointer import Checkpointer, NewStart
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.seams.clock import Clock
from ottla.seams.threads import Threads
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.log import retention
from ottla.storage.log.log import Log

Item = TypeVar("Item")

SLICE_NS_MAX = 1_000_000
ROUND_MS = 1_000
# How often free space is looked at where less than this is left above the reserve: as much as a
# second may bring.
WATCH_MS = 50
SCARCE_BYTES = 1 << 30
DISK_RESERVE = "disk reserve"


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
    """`run` and `watch_disks` do not end.

    `problem` is told what a disk did and where, `solved` that it is over, `offline` that a log
    directory went offline, and why.
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
        # Replaced when a setting changes.
        self.rules = rules
        self._replicas = replicas
        self._flusher = flusher
        self._checkpointer = checkpointer
        self._threads = threads
        self._clock = clock
        self._problem = problem
        self._solved = solved
        self._offline = offline
        # By log directory that is online, as of the last round.
        self.free_bytes: dict[str, int] = {}
        # The directories that went offline and were reported, and those whose logs are marked.
        self._reported: set[str] = set()
        self._marked: set[str] = set()
        self._removals: list[Removal] = []
        self._retained_ms = self._checkpointed_ms = self._steady_ms()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_MS / 1000)
            await self.round()

    async def watch_disks(self) -> None:
        """Looks at free space, often where it is scarce; does not end.

        The first time before anybody appends: a disk that is full at the start is not written to.
        """
        while True:
            self._watch_disk()
            await asyncio.sleep((WATCH_MS if self._is_room_scarce else ROUND_MS) / 1000)

    @property
    def _is_room_scarce(self) -> bool:
        """Whether a disk may go below its reserve, and far, before the next round."""
        reserve_bytes = self.rules.disk_reserve_bytes
        scarce_bytes = reserve_bytes + SCARCE_BYTES
        return reserve_bytes > 0 and (
            min(self.free_bytes.values(), default=scarce_bytes) < scarce_bytes
        )

    async def round(self) -> None:
        """Everything that is due, once."""
        steady_ms = self._steady_ms()
        retains = steady_ms - self._retained_ms >= self.rules.retention_interval_ms
        if retains:
            self._retained_ms = steady_ms
            await self._retain()
        async for replica in self._in_slices(list(self._replicas)):
            log = replica.log
            if log is not None and log.offline is None:
                with self._told_of_faults(replica):
                    if log.flush_is_due() or log.has_unflushed_segments:
                        await self._flusher.flush(log, log.end_offset)
        await self._remove_what_is_due(steady_ms)
        if steady_ms - self._checkpointed_ms >= self.rules.checkpoint_interval_ms:
            self._checkpointed_ms = steady_ms
            await self._checkpoint()
        await self._mark_offline_logs()

    async def _retain(self) -> None:
        """Drops the segments that have had their time, and forgets producers that have had theirs.

        All that is to go is decided first; then the new starts of a directory's logs are made
        durable together, in a thread; and only then are segments renamed.
        """
        found: list[Expired] = []
        async for replica in self._in_slices(list(self._replicas)):
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
        async for each in self._in_slices(found):
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

    def _drop_segments(self, expired: "Expired") -> None:
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

    async def _in_slices(self, items: Sequence[Item]) -> AsyncIterator[Item]:
        """Each of them; after a millisecond others have their turn."""
        slice_ends_ns = self._clock.steady_ns() + SLICE_NS_MAX
        for item in items:
            yield item
            if self._clock.steady_ns() >= slice_ends_ns:
                await asyncio.sleep(0)
                slice_ends_ns = self._clock.steady_ns() + SLICE_NS_MAX

    def remove_later(self, replica: Replica, paths: list[str]) -> None:
        """Removes files once those who read them have had their time."""
        if paths:
            due_ms = self._steady_ms() + replica.rules.retention.file_delete_delay_ms
            self._removals.append(Removal(due_ms, paths))

    def _watch_disk(self) -> None:
        """A directory below the reserve refuses produces; above it they are taken again.

        A directory that was removed or replaced goes offline.
        """
        for directory in self._replicas.directories.directories:
            directory.check_in_place()
            if directory.offline is None:
                self._watch_room(directory)
            else:
                self._report_offline(directory, directory.offline)

    def _report_offline(self, directory: LogDirectory, error: Exception) -> None:
        """Once, whatever took the directory offline."""
        if directory.path in self._reported:
            return
        self._reported.add(directory.path)
        self.free_bytes.pop(directory.path, None)
        self._replicas.directories.full.pop(directory.path, None)
        self._offline(directory.path, error)
        for replica in self._replicas.all:
            if replica.log is not None and self._home_of(replica.log) is directory:
                # Whoever waits for records of it must hear of the fault.
                replica.waiting.wake_all()

    async def _mark_offline_logs(self) -> None:
        """In a thread: there may be thousands, on a disk that fails."""
        for directory in self._replicas.directories.directories:
            if directory.offline is not None and directory.path not in self._marked:
                self._marked.add(directory.path)
                await self._threads.run(directory.distrust_logs)

    def _watch_room(self, directory: LogDirectory) -> None:
        path, full = directory.path, self._replicas.directories.full
        reserve_bytes = self.rules.disk_reserve_bytes
        try:
            free_bytes = self.free_bytes[path] = directory.files.free_bytes(path)
        except OSError as error:
            self._problem(path, error)
            return
        if free_bytes < reserve_bytes:
            is_news = path not in full
            full[path] = f"{path}: {free_bytes} bytes free, {reserve_bytes} are kept in reserve"
            if is_news:
                self._problem(f"{DISK_RESERVE} of {path}", StorageError(full[path]))
        elif full.pop(path, None) is not None:
            self._solved(f"{DISK_RESERVE} of {path}")

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
            self._report_offline(directory, directory.offline)


class Expired(NamedTuple):
    """A log of which something has had its time: all before an offset, or the active segment."""

    replica: Replica
    log: Log
    start_offset: int
    ends_active: bool

    @property
    def is_current(self) -> bool:
        """Whether it is still the partition's log: others had their turn since it was looked at."""
        return self.replica.log is self.log and self.log.offline is None


def find_expired(replica: Replica, log: Log, now_ms: int) -> Expired | None:
    """What retention takes of a log; what lies wholly before its start goes in any case."""
    rules = replica.rules.retention
    segments = log.summaries()
    count = retention.below_start(segments, log_start_offset=log.start_offset)
    ends_active = False
    if rules.deletes:
        high_watermark, retention_ms = replica.high_watermark, rules.retention_ms
        by_time = retention.expired_by_time(
            segments, now_ms=now_ms, retention_ms=retention_ms, high_watermark=high_watermark
        )
        by_size = retention.by_size(
            segments, retention_bytes=rules.retention_bytes, high_watermark=high_watermark
        )
        count = max(count, by_time, by_size)
        ends_active = retention.active_has_expired(
            segments, now_ms=now_ms, retention_ms=retention_ms, high_watermark=high_watermark
        )
    if not count and not ends_active:
        return None
    start_offset = max(log.start_offset, segments[count].base_offset)
    return Expired(replica, log, start_offset, ends_active)
