"""One segment: a `.log` file of batches and the indexes beside it."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.errors import CorruptLog, StorageError
from ottla.protocol.batch import BatchHeader
from ottla.seams.files import Buffer, File, write_all
from ottla.storage.config import LogConfig
from ottla.storage.file_pool import FilePool
from ottla.storage.file_slice import FileSlice
from ottla.storage.index import EntryFile, OffsetIndex, TimeIndex, TransactionIndex
from ottla.storage.retention import SegmentSummary
from ottla.storage.scan import SCAN_WINDOW_BYTES, BatchWalk, Placed
from ottla.storage.tail import Found

LOG, OFFSETS, TIMES, TRANSACTIONS = ".log", ".index", ".timeindex", ".txnindex"
SUFFIXES = (LOG, OFFSETS, TIMES, TRANSACTIONS)


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


class Unsynced(NamedTuple):
    """A file to make durable; its owner is told how much of it then is."""

    owner: "Segment | EntryFile"
    file: File
    size_bytes: int


class Segment:
    """Grows at its end, is cut from its end, and is found in by offset and by time."""

    __slots__ = (
        "_bytes_since_entry",
        "_config",
        "_directory",
        "_first_timestamp_ms",
        "_pool",
        "aborted",
        "base_offset",
        "largest_timestamp",
        "offsets",
        "size_bytes",
        "synced_bytes",
        "times",
    )

    def __init__(self, pool: FilePool, directory: str, base_offset: int, config: LogConfig) -> None:
        self._pool = pool
        self._directory = directory
        self._config = config
        self.base_offset = base_offset
        self.offsets = OffsetIndex(pool, self.path(OFFSETS), base_offset)
        self.times = TimeIndex(pool, self.path(TIMES), base_offset)
        self.aborted = TransactionIndex(pool, self.path(TRANSACTIONS))
        self.size_bytes = self.file.size()
        self.synced_bytes = -1
        self.largest_timestamp = self.times.last
        self._first_timestamp_ms: int | None = None
        self._bytes_since_entry = 0
        self._count_bytes_since_entry()

    @classmethod
    def create(
        cls, pool: FilePool, directory: str, base_offset: int, config: LogConfig
    ) -> "Segment":
        """A new, empty one. What an earlier one of this name left behind is removed."""
        for suffix in SUFFIXES:
            path = segment_path(directory, base_offset, suffix)
            pool.forget(path)
            with contextlib.suppress(FileNotFoundError):
                pool.files.remove(path)
        pool.create(segment_path(directory, base_offset, LOG))
        return cls(pool, directory, base_offset, config)

    def path(self, suffix: str) -> str:
        return segment_path(self._directory, self.base_offset, suffix)

    @property
    def file(self) -> File:
        return self._pool.get(self.path(LOG))

    @property
    def first_timestamp_ms(self) -> int | None:
        """The time of the first batch, by which the segment's age is counted."""
        if self._first_timestamp_ms is None and self.size_bytes:
            first = next(iter(BatchWalk(self.file, 0, self.size_bytes)))
            self._first_timestamp_ms = first.header.max_timestamp
        return self._first_timestamp_ms

    def summary(self, *, end_offset: int, is_active: bool) -> SegmentSummary:
        return SegmentSummary(
            base_offset=self.base_offset,
            end_offset=end_offset,
            size_bytes=self.size_bytes,
            largest_timestamp_ms=self.largest_timestamp[0],
            is_active=is_active,
        )

    # Growing

    def append(self, parts: Sequence[Buffer], header: BatchHeader) -> int:
        """Writes one batch and notes it; its position. All or nothing: a part is cut off again."""
        position = self.size_bytes
        file = self.file
        try:
            write_all(file, position, parts)
        except OSError as error:
            try:
                file.truncate(position)
            except OSError as second:
                raise StorageError(f"{file.path}: {error}, then {second}") from error
            raise
        self.note(position, header)
        return position

    def note(self, position: int, header: BatchHeader) -> None:
        """Takes a batch that lies at `position` into the indexes. Live and recovery share it."""
        if position == 0:
            self._first_timestamp_ms = header.max_timestamp
        if header.max_timestamp > self.largest_timestamp[0]:
            self.largest_timestamp = (header.max_timestamp, header.last_offset)
        if self._bytes_since_entry > self._config.index_interval_bytes:
            self.offsets.add(header.last_offset, position)
            self.times.add(*self.largest_timestamp)
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size
        self.size_bytes = position + header.size

    def seal(self) -> None:
        """No more batches for now: the time index says the largest time there is."""
        if self.largest_timestamp[0] >= 0:
            self.times.add(*self.largest_timestamp)
        self.offsets.write()
        self.times.write()

    def unsynced(self) -> Iterator[Unsynced]:
        """What a flush of this segment must make durable: data first, then what points to it."""
        if self.size_bytes != self.synced_bytes:
            yield Unsynced(self, self.file, self.size_bytes)
        for index in (self.offsets, self.times, self.aborted):
            if len(index):
                index.write()
            if len(index) and index.written_bytes != index.synced_bytes:
                yield Unsynced(index, index.file, index.written_bytes)

    # Finding

    def walk(self, position: int = 0, *, end: int | None = None) -> BatchWalk:
        """All batches from `position` on, for whoever wants to see every one."""
        end = self.size_bytes if end is None else end
        return BatchWalk(self.file, position, end, SCAN_WINDOW_BYTES)

    def find(self, offset: int) -> Placed | None:
        """The first batch that ends at or beyond `offset`."""
        start = self.offsets.position_before(offset)
        try:
            for placed in BatchWalk(self.file, start, self.size_bytes):
                if placed.header.last_offset >= offset:
                    # Its entry says that this batch ends at or before what was looked for.
                    if start and placed.position == start and placed.header.last_offset > offset:
                        raise CorruptLog(self.offsets.path, start, "the index misleads")
                    return placed
        except CorruptLog:
            if start == 0:
                raise
            # The log is the truth: an index that points into the middle of a batch is made anew.
            self.rebuild_indexes()
            return self.find(offset)
        return None

    def find_time(self, timestamp_ms: int, start_offset: int) -> Placed | None:
        """The first batch at or beyond `start_offset` with a time of at least `timestamp_ms`."""
        first = max(start_offset, self.times.offset_before(timestamp_ms))
        found = self.find(first)
        if found is None:
            return None
        for placed in BatchWalk(self.file, found.position, self.size_bytes):
            if placed.header.max_timestamp >= timestamp_ms:
                return placed
        return None

    def slice(self, found: Found, end_position: int, bytes_max: int) -> FileSlice:
        """From a batch on: at least that batch, and at most `bytes_max` if it is smaller."""
        size = min(max(bytes_max, found.size), end_position - found.position)
        return FileSlice(self.file, found.position, size)

    # Shrinking

    def truncate(self, position: int, next_offset: int) -> None:
        """Cuts the batches from `position` on, the first of which would be `next_offset`."""
        self.offsets.truncate_to(next_offset)
        self.times.truncate_to(next_offset)
        self.aborted.truncate_to(next_offset)
        self.file.truncate(position)
        self.size_bytes = position
        self.synced_bytes = -1
        self._restore_notes(next_offset)

    def rebuild_indexes(self) -> None:
        """Makes both sparse indexes anew from the headers in the log."""
        self.offsets.truncate(0)
        self.times.truncate_to(self.base_offset)
        self.largest_timestamp = self.times.last
        self._bytes_since_entry = 0
        for placed in self.walk():
            self.note(placed.position, placed.header)

    def forget_from(self, offset: int) -> int:
        """Keeps of the indexes what lies below `offset`; where to begin noting batches again."""
        exists = self._pool.files.exists
        if not (exists(self.offsets.path) and exists(self.times.path)):
            offset = self.base_offset
        self.offsets.keep_valid(offset, self.size_bytes)
        self.times.keep_valid(offset)
        self.aborted.keep_valid(offset)
        self.largest_timestamp = self.times.last
        self._bytes_since_entry = 0
        self.size_bytes = self.offsets[len(self.offsets) - 1][1] if len(self.offsets) else 0
        return self.size_bytes

    def cut_to_noted(self) -> int:
        """Cuts off, durably, what was not noted; how many bytes that was."""
        cut_bytes = self.file.size() - self.size_bytes
        self.file.truncate(self.size_bytes)
        self.file.sync()
        return cut_bytes

    def mark_deleted(self, suffix: str) -> list[str]:
        """Renames the files out of the way; their new paths, to be removed later."""
        renamed = []
        for path in map(self.path, SUFFIXES):
            self._pool.forget(path)
            with contextlib.suppress(FileNotFoundError):
                self._pool.files.rename(path, path + suffix)
                renamed.append(path + suffix)
        return renamed

    def remove(self) -> None:
        for path in map(self.path, SUFFIXES):
            self._pool.forget(path)
            with contextlib.suppress(FileNotFoundError):
                self._pool.files.remove(path)

    def _restore_notes(self, next_offset: int) -> None:
        """After a cut: the largest time among what is left, from the last entry on."""
        self.largest_timestamp = self.times.last
        self._count_bytes_since_entry()
        start = self.offsets.position_before(next_offset) if len(self.offsets) else 0
        for placed in BatchWalk(self.file, start, self.size_bytes):
            if placed.header.max_timestamp > self.largest_timestamp[0]:
                self.largest_timestamp = (placed.header.max_timestamp, placed.header.last_offset)
        if self.size_bytes == 0:
            self._first_timestamp_ms = None

    def _count_bytes_since_entry(self) -> None:
        last = self.offsets[len(self.offsets) - 1][1] if len(self.offsets) else 0
        self._bytes_since_entry = self.size_bytes - last
