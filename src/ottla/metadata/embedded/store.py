"""The metadata of a single broker: a log of our own, in the broker's own data directory.

A snapshot is one file beside the log. It counts from the moment it is in place; whatever happens
afterwards, the entries that it replaced are not looked at again.
"""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from functools import partial

from ottla.errors import StorageError
from ottla.metadata.embedded.entry_log import PARTITION, EntryLog
from ottla.metadata.embedded.snapshot_file import read_snapshot, write_snapshot
from ottla.metadata.entry_codec import EntryPacker
from ottla.metadata.records import ControllerStarted, Record
from ottla.metadata.store import (
    EntriesGone,
    Entry,
    Fence,
    Fenced,
    Lease,
    Loaded,
    Member,
    Registration,
    Snapshot,
    StoreClosed,
)
from ottla.seams.clock import Clock
from ottla.seams.files import Files, Lock
from ottla.seams.threads import SameThread, Threads

LOCK_NAME = ".lock"
# About a millisecond's work.
PACKED_AT_ONCE = 64

_BEFORE_ALL = Snapshot(-1, ())
_FOR_EVER = Lease(2**63 - 1)


class StoreInUse(StorageError):
    """Another process has this data directory."""


class EmbeddedStore:
    """A `MetadataStore` on this machine's disk.

    What waits for the disk is done in a thread, one entry or snapshot after another, in the order
    of the calls. A caller that gives up waiting stops nothing: what it began is finished.

    The fence is the lock on the directory, held from opening to closing; within this process the
    last campaign has it. A broker's epoch is the number of an entry without records that its
    registration writes, so none is given twice. The lease never ends.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        lock: Lock,
        log: EntryLog,
        snapshot: Snapshot,
        threads: Threads,
    ) -> None:
        """By `open`."""
        self._files = files
        self._threads = threads
        # Held by whoever writes.
        self._writing = asyncio.Lock()
        # For their references alone: a task that nobody refers to may vanish.
        self._commits: set[asyncio.Task[int]] = set()
        self._directory = directory
        self._lock = lock
        self._log = log
        self._snapshot = snapshot
        # What opening read, for whoever loads next: to decode it is most of what a start costs.
        self._found: tuple[Entry, ...] | None = tuple(self._entries())
        self._members: dict[int, Member] = {}
        self._fence: Fence | None = None
        self._controller_epoch = 0
        self._is_open = True
        # Why nothing is written any more, if the data directory failed.
        self._offline: Exception | None = None
        # What was appended last: whoever follows need not read it back.
        self._latest: Entry | None = None
        # Set, and replaced, whenever something happens that an iterator may wait for.
        self._changed = asyncio.Event()

    @classmethod
    def open(
        cls,
        files: Files,
        data_directory: str,
        clock: Clock,
        threads: Threads = SameThread(),  # noqa: B008 - it has no state
    ) -> "EmbeddedStore":
        """The store in `data_directory`, made if there is none yet.

        StoreInUse if another process has it, CorruptLog if what was committed cannot be read.
        """
        directory = f"{data_directory}/{PARTITION}"
        if not files.is_dir(directory):
            files.make_dir(directory)
        # Even if it was there: whoever made it may have died before its name was durable.
        files.sync_dir(data_directory)
        lock = _lock(files, directory)
        try:
            snapshot = read_snapshot(files, directory) or _BEFORE_ALL
            log = EntryLog(files, directory, clock, snapshot.n + 1)
            store = cls(files, directory, lock, log, snapshot, threads)
            store._note_controllers(snapshot.records)
            for entry in store._found or ():
                store._note_controllers(entry.records)
        except BaseException:
            lock.release()
            raise
        return store

    async def load(self) -> Loaded:
        self._require_open()
        found, self._found = self._found, None
        # More may have been appended since.
        if found is None or len(found) != self._log.next_n - self._snapshot.n - 1:
            found = tuple(self._entries())
        return Loaded(self._snapshot, found)

    async def append(self, records: Sequence[Record], fence: Fence) -> int:
        return await self._commit(tuple(records), fence)

    async def save(self, snapshot: Snapshot, fence: Fence) -> None:
        self._require_open()
        self._require_newest(fence)
        if not max(self._snapshot.n, 0) <= snapshot.n < self._log.next_n:
            raise ValueError(
                f"a snapshot of entry {snapshot.n}, between {self._snapshot.n} and"
                f" {self._log.next_n - 1} expected"
            )
        packer = EntryPacker()
        for number, record in enumerate(snapshot.records, start=1):
            packer.add(record)
            if number % PACKED_AT_ONCE == 0:
                # Of a large image it takes longer than others should wait.
                await asyncio.sleep(0)
        async with self._writing:
            # Much may have happened meanwhile.
            self._require_open()
            self._require_newest(fence)
            self._require_online()
            await self._threads.run(
                partial(write_snapshot, self._files, self._directory, snapshot.n, packer.entries())
            )
            self._snapshot, self._found = snapshot, None
            if self._offline is None:
                self._log.drop_below(snapshot.n + 1)

    async def follow(self, from_n: int) -> AsyncIterator[Entry]:
        while True:
            self._require_open()
            if from_n <= self._snapshot.n:
                raise EntriesGone(from_n, self._snapshot.n + 1)
            changed = self._changed
            latest = self._latest
            if latest is not None and latest.n == from_n:
                entries = [latest]
            else:
                entries = self._log.read(from_n)
            for entry in entries:
                yield entry
            from_n += len(entries)
            if not entries:
                await changed.wait()

    async def register(self, registration: Registration) -> int:
        epoch = await self._commit((), None)
        self._members[registration.broker_id] = Member(registration, epoch)
        self._wake()
        return epoch

    async def members(self) -> AsyncIterator[tuple[Member, ...]]:
        told: tuple[Member, ...] | None = None
        while True:
            self._require_open()
            changed = self._changed
            present = tuple(member for _, member in sorted(self._members.items()))
            if present == told:
                await changed.wait()
            else:
                told = present
                yield present

    async def campaign(self) -> Fence:
        self._require_open()
        self._controller_epoch += 1
        self._fence = Fence(self._controller_epoch)
        return self._fence

    def session(self) -> Lease:
        self._require_open()
        return _FOR_EVER

    def log_directory_failed(self, path: str, error: Exception) -> None:
        """If it is the data directory, nothing is written from now on. Each later write is an
        OSError, and committed entries are still followed."""
        if self._directory == f"{path}/{PARTITION}":
            self._offline = error

    async def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._wake()
        async with self._writing:
            try:
                if self._offline is None:
                    self._log.close()
                else:
                    self._log.abandon()
            finally:
                self._lock.release()

    def _commit(self, records: tuple[Record, ...], fence: Fence | None) -> "asyncio.Future[int]":
        """Comes when the entry is committed. Whoever waits may be cancelled, the commit not."""
        commit = asyncio.get_running_loop().create_task(self._write(records, fence), name="commit")
        self._commits.add(commit)
        commit.add_done_callback(self._committed)
        return asyncio.shield(commit)

    def _committed(self, commit: "asyncio.Task[int]") -> None:
        self._commits.discard(commit)
        if not commit.cancelled():
            # Whoever waits is told; where nobody waits any more, nobody has to be.
            commit.exception()

    async def _write(self, records: tuple[Record, ...], fence: Fence | None) -> int:
        """Commits an entry; its number."""
        async with self._writing:
            self._require_writer(fence)
            self._require_online()
            point = self._log.unsaved_point
            if point is not None:
                await self._threads.run(partial(self._log.save_point, point))
                self._log.point_saved(point)
                self._require_writer(fence)
            flush = self._log.begin(records)
            try:
                await self._threads.run(flush.run)
            except OSError as error:
                self._log.fail(error)
            n = self._log.end(flush)
            self._latest = Entry(n, records)
            self._note_controllers(records)
            self._wake()
            return n

    def _require_writer(self, fence: Fence | None) -> None:
        """Without a fence anybody may write: what is written has no records."""
        self._require_open()
        if fence is not None:
            self._require_newest(fence)

    def _entries(self) -> Iterator[Entry]:
        n = self._snapshot.n + 1
        while n < self._log.next_n:
            entries = self._log.read(n)
            yield from entries
            n += len(entries)

    def _note_controllers(self, records: Iterable[Record]) -> None:
        """The next campaign's epoch lies above every controller's that the log has seen."""
        for record in records:
            if isinstance(record, ControllerStarted):
                self._controller_epoch = max(self._controller_epoch, record.epoch)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _require_open(self) -> None:
        if not self._is_open:
            raise StoreClosed(f"{self._directory} was closed")

    def _require_online(self) -> None:
        if self._offline is not None:
            raise OSError(errno.EIO, f"its log directory is offline: {self._offline}")

    def _require_newest(self, fence: Fence) -> None:
        if fence != self._fence:
            raise Fenced(f"{fence} is void, the newest is {self._fence}")


def _lock(files: Files, directory: str) -> Lock:
    path = f"{directory}/{LOCK_NAME}"
    try:
        return files.lock(path)
    except BlockingIOError:
        raise StoreInUse(f"{path} is held: another process uses this data directory") from None
