"""Reads of a log, by offset and by timestamp.

With `warm_only` a read raises ColdRead where it would have to wait for the disk.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from ottla.errors import LogOffline, OffsetOutOfRange, StorageError
from ottla.storage.log import aborted_transactions
from ottla.storage.log.batch_scan import Placed
from ottla.storage.log.cold_read import ReadAt, reader
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.file_slice import FileSlice
from ottla.storage.log.segment import LOG, Segment
from ottla.storage.log.tail import Found, Tail
from ottla.storage.log.time_search import LatestClaim, StoredBatch, Unfinished
from ottla.storage.opening.unsynced_tail import mark_unsynced
from ottla.storage.producers.state import AbortedTransaction


class ReadableLog:
    """The reading half of a log. A disk fault takes the log offline."""

    def __init__(
        self,
        pool: FilePool,
        directory: str,
        segments: list[Segment],
        tail: Tail,
        *,
        start_offset: int,
        end_offset: int,
    ) -> None:
        self.directory = directory
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.offline: Exception | None = None
        self._pool = pool
        self._segments = segments
        self._tail = tail
        # The segments with aborted transactions; None if it has to be found out again.
        self._aborting: list[Segment] | None = None

    def read(
        self,
        offset: int,
        *,
        bytes_max: int,
        end_offset: int | None = None,
        warm_only: bool = False,
    ) -> FileSlice | None:
        """The batches from the one that holds `offset` on, up to `end_offset` (exclusive).

        The first batch is whole even if it is larger than `bytes_max`; the last may be cut. None
        if there are no records yet. A slice does not cross segments.
        """
        if self.offline is not None:
            self._require_online()
        log_end = self.end_offset
        if not self.start_offset <= offset <= log_end:
            raise OffsetOutOfRange(offset, self.start_offset, log_end)
        bound = log_end if end_offset is None else min(end_offset, log_end)
        if offset >= bound:
            return None
        try:
            if bound == log_end and (recent := self._tail.find(offset)) is not None:
                # Nearly all reads: the reader keeps up.
                segment = self._segments[-1]
                return segment.slice(recent, segment.size_bytes, bytes_max)
            return self._slice(offset, bound, bytes_max, reader(warm_only=warm_only))
        except (OSError, StorageError) as error:
            self.fail(error)

    def _slice(self, offset: int, bound: int, bytes_max: int, read: ReadAt) -> FileSlice | None:
        for index in range(self._segment_index(offset), len(self._segments)):
            segment = self._segments[index]
            found = self._find(segment, offset, read)
            if found is None:
                continue  # compaction may leave a gap at the end of a segment
            end_position = segment.size_bytes
            if bound < self._end_of(index):
                beyond = self._find(segment, bound, read)
                end_position = beyond.position if beyond else end_position
            slice_ = segment.slice(found, end_position, bytes_max)
            return slice_ if slice_.size > 0 else None
        return None

    def bytes_between(self, start_offset: int, end_offset: int) -> int | None:
        """The size of recent batches; None if that would have to be read from the disk."""
        return self._tail.bytes_between(start_offset, end_offset)

    @property
    def largest_claim_ms(self) -> int:
        """The largest max timestamp of all batch headers; -1 if there is none."""
        return max(segment.largest_timestamp[0] for segment in self._segments)

    def batch_by_time(
        self, timestamp_ms: int, offset: int, *, warm_only: bool = False
    ) -> StoredBatch | Unfinished | None:
        """The first batch that ends at or beyond `offset` with at least this max timestamp."""
        self._require_online()
        read = reader(warm_only=warm_only)
        with self._disk_faults():
            for segment in self._segments[self._segment_index(offset) :]:
                found = segment.batch_by_time(timestamp_ms, offset, read)
                if found is not None:
                    return found
        return None

    def batch_at(self, offset: int, *, warm_only: bool = False) -> StoredBatch | None:
        """The batch that holds `offset`, or the next one."""
        self._require_online()
        read = reader(warm_only=warm_only)
        with self._disk_faults():
            for segment in self._segments[self._segment_index(offset) :]:
                found = segment.batch_at(offset, read)
                if found is not None:
                    return found
        return None

    def latest_claim(
        self, offset: int, *, warm_only: bool = False
    ) -> tuple[LatestClaim | None, Unfinished | None]:
        """The largest max timestamp in the headers of the next batches from `offset` on."""
        self._require_online()
        with self._disk_faults():
            index = self._segment_index(offset)
            read = reader(warm_only=warm_only)
            claim, unfinished = self._segments[index].latest_claim(offset, read)
            if unfinished is None and index + 1 < len(self._segments):
                unfinished = Unfinished(self._segments[index + 1].base_offset)
            return claim, unfinished

    def aborted_transactions(
        self, start_offset: int, end_offset: int, *, warm_only: bool = False
    ) -> list[AbortedTransaction]:
        """The aborted transactions with a record in [start, end), by their first offsets."""
        self._require_online()
        later = self._aborting_from(start_offset)
        if not later:
            return []
        with self._disk_faults():
            read = reader(warm_only=warm_only)
            return aborted_transactions.aborted_transactions(later, start_offset, end_offset, read)

    def aborted_in(
        self, records: FileSlice, offset: int, end_offset: int, *, warm_only: bool = False
    ) -> list[AbortedTransaction]:
        """The aborted transactions with a record in a slice that `read` found for these offsets.

        As in Kafka, some that begin behind the slice may be among them, up to one index entry.
        """
        self._require_online()
        later = self._aborting_from(offset)
        if not later:
            return []
        with self._disk_faults():
            read = reader(warm_only=warm_only)
            behind = min(self._offset_behind(records, offset, read), end_offset)
            return aborted_transactions.aborted_transactions(later, offset, behind, read)

    def _aborting_from(self, offset: int) -> list[Segment]:
        """The segments with aborted transactions, from the one that holds `offset` on."""
        if self._aborting is None:
            self._aborting = [segment for segment in self._segments if len(segment.aborted)]
        # Consumers that keep up are beyond the last marker, in whichever segment it is.
        if not self._aborting or self._aborting[-1].aborted.last_offset < offset:
            return []
        first = self._segments[self._segment_index(offset)].base_offset
        begin = bisect_left(self._aborting, first, key=lambda segment: segment.base_offset)
        return self._aborting[begin:]

    def _offset_behind(self, records: FileSlice, offset: int, read: ReadAt) -> int:
        """An offset behind all batches that begin in the slice."""
        index = self._segment_index(offset)
        # Compaction may leave a gap at the end of a segment.
        while self._segments[index].path(LOG) != records.file.path:
            index += 1
        segment, end_position = self._segments[index], records.position + records.size
        if end_position >= segment.size_bytes:
            return self._end_of(index)
        behind = None
        if segment is self._segments[-1]:
            behind = self._tail.offset_behind(end_position)
        if behind is None:
            behind = segment.offsets.offset_behind(end_position, read)
        return self._end_of(index) if behind is None else behind

    def _find(self, segment: Segment, offset: int, read: ReadAt) -> Found | None:
        if segment is self._segments[-1]:
            found = self._tail.find(offset)
            if found:
                return found
        placed: Placed | None = segment.find(offset, read)
        return Found(placed.position, placed.header.size) if placed else None

    def _segment_index(self, offset: int) -> int:
        found = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
        return max(found - 1, 0)

    def _end_of(self, index: int) -> int:
        if index + 1 < len(self._segments):
            return self._segments[index + 1].base_offset
        return self.end_offset

    def fail(self, error: Exception) -> NoReturn:
        """Takes the log offline after a disk fault, until it is opened again."""
        self.offline = error
        mark_unsynced(self._pool.files, self.directory)
        raise LogOffline(f"{self.directory}: {error}") from error

    def _require_online(self) -> None:
        if self.offline is not None:
            raise LogOffline(f"{self.directory}: {self.offline}") from self.offline

    @contextmanager
    def _disk_faults(self) -> Iterator[None]:
        try:
            yield
        except (OSError, StorageError) as error:
            self.fail(error)
