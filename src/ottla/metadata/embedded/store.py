"""The metadata store of a single broker: a log in one of the broker's log directories.

A snapshot is one file beside the log. Once it is in place, the entries that it replaced are never
read again.
"""

import asyncio
import errno
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from ottla.errors import StorageError
from ottla.metadata.embedded.entry_log import PARTITION, EntryLog
from ottla.metadata.embedded.snapshot_file import read_snapshot, write_snapshot
from ottla.metadata.records import ControllerStarted, Record
from ottla.metadata.snapshot_packing import pack
from ottla.metadata.store import (
    EntriesGone,
    Entry,
    Fence,
    Fenced,
    Loaded,
    RegisteredBroker,
    Registration,
    Snapshot,
    StoreClosed,
)
from ottla.seams.clock import Clock
from ottla.seams.files import Files, Lock
from ottla.seams.threads import SameThread, Threads

LOCK_NAME = ".lock"

_EMPTY_SNAPSHOT = Snapshot(-1, ())


class StoreInUse(StorageError):
    """Another process uses this log directory."""


class EmbeddedStore:
    """A `MetadataStore` on the local disk.

    A thread waits for the disk, one entry or snapshot at a time, in the order of the calls. A
    cancelled caller does not stop its write.

    The lock on the directory, held while the store is open, is the fence against other processes;
    within this process the last campaign has the fence. A broker epoch is the offset of an entry
    without records that the registration writes, so it is unique. A registration lasts until
    the store is closed.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        *,
        lock: Lock,
        log: EntryLog,
        snapshot: Snapshot,
        threads: Threads,
    ) -> None:
        """Called by `open`."""
        self._files = files
        self._threads = threads
        # Held by each write.
        self._writing = asyncio.Lock()
        # Keeps references: a task without one may be garbage collected.
        self._commits: set[asyncio.Task[int]] = set()
        self._directory = directory
        self._lock = lock
        self._log = log
        self._snapshot = snapshot
        # The entries read by `open`, for the first `load`: decoding them is most of a start's cost.
        self._opened_entries: tuple[Entry, ...] | None = tuple(self._entries())
        self._registered: RegisteredBroker | None = None
        self._fence: Fence | None = None
        self._controller_epoch = 0
        self._is_open = True
        # The error that took the log directory offline: nothing is written any more.
        self._offline: Exception | None = None
        # The last entry, so that followers need not read it from the log.
        self._latest: Entry | None = None
        # Set and replaced whenever an entry, a registration or `close` wakes iterators.
        self._changed = asyncio.Event()

    @classmethod
    def open(
        cls,
        files: Files,
        data_directory: str,
        clock: Clock,
        threads: Threads = SameThread(),  # noqa: B008 - it has no state
    ) -> "EmbeddedStore":
        """Opens the store in `data_directory`, or creates it.

        StoreInUse if another process uses it, CorruptLog if a committed entry cannot be read.
        """
        directory = f"{data_directory}/{PARTITION}"
        if not files.is_dir(directory):
            files.make_dir(directory)
        # Even if it exists: the process that made it may have crashed before its name was durable.
        files.sync_dir(data_directory)
        lock = _lock(files, directory)
        try:
            snapshot = read_snapshot(files, directory) or _EMPTY_SNAPSHOT
            log = EntryLog(files, directory, clock, snapshot.offset + 1)
            store = cls(files, directory, lock=lock, log=log, snapshot=snapshot, threads=threads)
            store._note_controllers(snapshot.records)
            for entry in store._opened_entries or ():
                store._note_controllers(entry.records)
        except BaseException:
            lock.release()
            raise
        return store

    @property
    def session_timeout_ms(self) -> int | None:
        return None

    @property
    def is_connected(self) -> bool:
        return True

    @property
    def known_head(self) -> int | None:
        return self._log.next_offset - 1

    async def cluster_id(self, proposed: str) -> str:
        self._require_open()
        return proposed

    async def load(self) -> Loaded:
        self._require_open()
        found, self._opened_entries = self._opened_entries, None
        # Entries may have been appended since.
        if found is None or len(found) != self._log.next_offset - self._snapshot.offset - 1:
            found = tuple(self._entries())
        return Loaded(self._snapshot, found)

    async def append(self, records: Sequence[Record], fence: Fence) -> int:
        return await self._commit(tuple(records), fence)

    async def save(self, snapshot: Snapshot, fence: Fence) -> None:
        self._require_open()
        self._require_newest(fence)
        if not max(self._snapshot.offset, 0) <= snapshot.offset < self._log.next_offset:
            raise ValueError(
                f"a snapshot of entry {snapshot.offset}, between {self._snapshot.offset} and"
                f" {self._log.next_offset - 1} expected"
            )
        chunks = await pack(snapshot.records)
        async with self._writing:
            # Checked again after the wait.
            self._require_open()
            self._require_newest(fence)
            self._require_online()
            await self._threads.run(
                partial(write_snapshot, self._files, self._directory, snapshot.offset, chunks)
            )
            self._snapshot, self._opened_entries = snapshot, None
            if self._offline is None:
                self._log.drop_below(snapshot.offset + 1)

    async def follow(self, from_offset: int) -> AsyncIterator[Entry]:
        while True:
            self._require_open()
            if from_offset <= self._snapshot.offset:
                raise EntriesGone(from_offset, self._snapshot.offset + 1)
            changed = self._changed
            latest = self._latest
            if latest is not None and latest.offset == from_offset:
                entries = [latest]
            else:
                entries = self._log.read(from_offset)
            for entry in entries:
                yield entry
            from_offset += len(entries)
            if not entries:
                await changed.wait()

    async def register(self, registration: Registration) -> int:
        epoch = await self._commit((), None)
        self._registered = RegisteredBroker(registration, epoch)
        self._wake()
        return epoch

    async def drain(self) -> None:
        self._require_open()
        if self._registered is not None:
            registration = replace(self._registered.registration, is_draining=True)
            self._registered = self._registered._replace(registration=registration)
            self._wake()

    async def until_unregistered(self) -> None:
        while self._registered is not None:
            self._require_open()
            await self._changed.wait()
        self._require_open()

    async def registered_brokers(self) -> AsyncIterator[tuple[RegisteredBroker, ...]]:
        yielded: tuple[RegisteredBroker, ...] | None = None
        while True:
            self._require_open()
            changed = self._changed
            present = () if self._registered is None else (self._registered,)
            if present == yielded:
                await changed.wait()
            else:
                yielded = present
                yield present

    async def campaign(self) -> Fence:
        self._require_open()
        self._controller_epoch += 1
        self._fence = Fence(self._controller_epoch)
        return self._fence

    def log_directory_failed(self, path: str, error: Exception) -> None:
        """If the store is in this directory, each later write is an OSError; committed entries are
        still followed."""
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
        """Done when the entry is committed. A cancelled caller does not cancel the commit."""
        commit = asyncio.get_running_loop().create_task(self._write(records, fence), name="commit")
        self._commits.add(commit)
        commit.add_done_callback(self._committed)
        return asyncio.shield(commit)

    def _committed(self, commit: "asyncio.Task[int]") -> None:
        self._commits.discard(commit)
        if not commit.cancelled():
            # Marks it as retrieved: the caller gets the error, if it still waits.
            commit.exception()

    async def _write(self, records: tuple[Record, ...], fence: Fence | None) -> int:
        """Commits an entry and returns its offset."""
        async with self._writing:
            self._require_writer(fence)
            self._require_online()
            point = self._log.unsaved_recovery_point
            if point is not None:
                await self._threads.run(partial(self._log.save_recovery_point, point))
                self._log.recovery_point_saved(point)
                self._require_writer(fence)
            flush = self._log.begin(records)
            try:
                await self._threads.run(flush.run)
            except OSError as error:
                self._log.fail(error)
            offset = self._log.end(flush)
            self._latest = Entry(offset, records)
            self._note_controllers(records)
            self._wake()
            return offset

    def _require_writer(self, fence: Fence | None) -> None:
        """A write without records, by a registration, needs no fence."""
        self._require_open()
        if fence is not None:
            self._require_newest(fence)

    def _entries(self) -> Iterator[Entry]:
        offset = self._snapshot.offset + 1
        while offset < self._log.next_offset:
            entries = self._log.read(offset)
            yield from entries
            offset += len(entries)

    def _note_controllers(self, records: Iterable[Record]) -> None:
        """The epoch of the next campaign is above all controller epochs in the log."""
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
