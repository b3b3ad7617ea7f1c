"""One segment: a `.log` file of batches and the indexes beside it."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from ottla.errors import CorruptLog, StorageError
from ottla.protocol.batch import UNCOUNTED_BYTES, BatchHeader
from ottla.seams.files import Buffer, File, write_rest
from ottla.storage.log.batch_scan import SCAN_WINDOW_BYTES, BatchWalk, Placed
from ottla.storage.log.cold_read import ReadAt, read_waiting
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.file_slice import Extent, FileSlice
from ottla.storage.log.index import EntryFile, OffsetIndex, TimeIndex, TransactionIndex
from ottla.storage.log.joint_append import Joint
from ottla.storage.log.retention import OFFSET_DELTA_MAX, RollState, SegmentSummary
from ottla.storage.log.tail import Found
from ottla.storage.log.time_search import (
    STEP_BYTES,
    LatestClaim,
    StoredBatch,
    Unfinished,
    stored_batch,
)

LOG, OFFSETS, TIMES, TRANSACTIONS = ".log", ".index", ".timeindex", ".txnindex"
SUFFIXES = (LOG, OFFSETS, TIMES, TRANSACTIONS)


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


class Unsynced(NamedTuple):
    """A file to sync. Its owner then notes `size_bytes` as durable."""

    owner: "Segment | EntryFile"
    file: File
    size_bytes: int


class Segment:
    """Appends batches, finds them by offset and by timestamp, and truncates."""

    __slots__ = (
        "_bytes_since_entry",
        "_config",
        "_directory",
        "_ending",
        "_extent",
        "_first_timestamp_ms",
        "_log_path",
        "_pool",
        "aborted",
        "base_offset",
        "largest_timestamp",
        "offsets",
        "size_bytes",
        "synced_bytes",
        "times",
    )

    def __init__(
        self,
        pool: FilePool,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        ending: str = "",
    ) -> None:
        """`ending` is a suffix of all file names, such as `.cleaned`."""
        self._pool = pool
        self._directory = directory
        self._ending = ending
        self._config = config
        self.base_offset = base_offset
        self._log_path = self.path(LOG)
        self.offsets = OffsetIndex(pool, self.path(OFFSETS), base_offset)
        self.times = TimeIndex(pool, self.path(TIMES), base_offset)
        self.aborted = TransactionIndex(pool, self.path(TRANSACTIONS))
        self.size_bytes = self.file.size()
        self.synced_bytes = -1
        self._extent = Extent()
        self.largest_timestamp = self.times.last
        self._first_timestamp_ms: int | None = None
        self._bytes_since_entry = 0
        self._count_bytes_since_entry()

    @classmethod
    def create(
        cls,
        pool: FilePool,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        ending: str = "",
    ) -> Self:
        """Creates an empty segment. Files that an earlier one of this name left are removed."""
        for suffix in SUFFIXES:
            path = segment_path(directory, base_offset, suffix) + ending
            pool.forget(path)
            with contextlib.suppress(FileNotFoundError):
                pool.files.remove(path)
        pool.create(segment_path(directory, base_offset, LOG) + ending)
        return cls(pool, directory, base_offset, config, ending=ending)

    def renamed(self, directory: str) -> None:
        """The directory of the segment has a new path. Its files were forgotten by the pool."""
        self._directory = directory
        self._log_path = self.path(LOG)
        for index, suffix in (
            (self.offsets, OFFSETS),
            (self.times, TIMES),
            (self.aborted, TRANSACTIONS),
        ):
            index.path = self.path(suffix)

    def path(self, suffix: str) -> str:
        return segment_path(self._directory, self.base_offset, suffix) + self._ending

    @property
    def file(self) -> File:
        return self._pool.get(self._log_path)

    @property
    def has_indexes(self) -> bool:
        exists = self._pool.files.exists
        return exists(self.offsets.path) and exists(self.times.path)

    @property
    def first_timestamp_ms(self) -> int | None:
        """The max timestamp of the first batch, from which the age of the segment counts."""
        if self._first_timestamp_ms is None and self.size_bytes:
            first = next(iter(self._look(0)))
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

    def mark_synced(self) -> None:
        """Takes all files as durable, as after a clean shutdown."""
        for part in (self, self.offsets, self.times, self.aborted):
            part.synced_bytes = part.size_bytes

    def roll_state(self, created_ms: int) -> RollState:
        first_timestamp_ms = self.first_timestamp_ms
        return RollState(
            base_offset=self.base_offset,
            size_bytes=self.size_bytes,
            first_timestamp_ms=-1 if first_timestamp_ms is None else first_timestamp_ms,
            created_ms=created_ms,
            offset_index_entries=len(self.offsets),
            time_index_entries=len(self.times),
        )

    # Growing

    def append(self, parts: Sequence[Buffer], header: BatchHeader) -> int:
        """Writes one batch and indexes it. Returns its position. A partial write is undone."""
        position = self.size_bytes
        self._write(position, parts, header.length + UNCOUNTED_BYTES)
        self.note(position, header)
        return position

    def append_together(self, joint: Joint) -> None:
        """As `append`, for batches that were joined for the end of this segment."""
        begin, size = self.size_bytes, len(joint.content)
        self._write(begin, (joint.content,), size)
        if self._bytes_since_entry + size > self._config.index_interval_bytes:
            self._note_together(joint, begin + size)
            return
        # No index entry is due within these batches.
        largest = max(joint.timestamps)
        if largest > self.largest_timestamp[0]:
            last_offset = joint.last_offsets[joint.timestamps.index(largest)]
            self.largest_timestamp = (largest, last_offset)
        self._bytes_since_entry += size
        self.size_bytes = begin + size

    def _write(self, position: int, parts: Sequence[Buffer], size: int) -> None:
        file = self._pool.get(self._log_path)
        try:
            written = file.write_at(position, parts)
            if written != size:
                write_rest(file, position, parts, written)
        except OSError as error:
            try:
                # Durably: a power loss must not bring back a batch that was refused.
                file.truncate(position)
                file.sync()
            except OSError as second:
                raise StorageError(f"{file.path}: {error}, then {second}") from error
            raise

    def note(self, position: int, header: BatchHeader) -> None:
        """Indexes the batch at `position`. Appends and recovery share this."""
        last_offset = header.base_offset + header.last_offset_delta
        self._note(position, header.length + UNCOUNTED_BYTES, last_offset, header.max_timestamp)

    def _note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        if position == 0:
            self._first_timestamp_ms = max_timestamp
        if max_timestamp > self.largest_timestamp[0]:
            self.largest_timestamp = (max_timestamp, last_offset)
        if self._bytes_since_entry > self._config.index_interval_bytes:
            self.offsets.add(last_offset, position)
            self.times.add(*self.largest_timestamp)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        self.size_bytes = position + size

    def _note_together(self, joint: Joint, end_position: int) -> None:
        """As `_note` for each of the batches, up to `end_position`."""
        if joint.positions[0] == 0:
            self._first_timestamp_ms = joint.timestamps[0]
        largest, interval_bytes = self.largest_timestamp, self._config.index_interval_bytes
        entries: list[tuple[int, int]] = []
        # The position behind which the next batch gets an entry.
        due = joint.positions[0] - self._bytes_since_entry + interval_bytes
        for position, last_offset, timestamp in zip(
            joint.positions, joint.last_offsets, joint.timestamps, strict=True
        ):
            if timestamp > largest[0]:
                largest = (timestamp, last_offset)
            if position > due:
                entries.append((last_offset, position))
                if largest[0] > self.times.last[0]:
                    self.times.add(*largest)
                due = position + interval_bytes
        self.offsets.add_all(entries)
        self.largest_timestamp = largest
        self._bytes_since_entry = end_position - (due - interval_bytes)
        self.size_bytes = end_position

    def seal(self) -> None:
        """Writes the indexes, with the largest timestamp as last entry of the time index."""
        self.times.add(*self.largest_timestamp)
        self.offsets.write()
        self.times.write()

    def make_durable(self) -> None:
        """Seals the segment and syncs its files. The directory is not synced."""
        self.seal()
        for unsynced in self.unsynced():
            unsynced.file.sync()

    def sync_indexes(self) -> None:
        """Syncs rebuilt indexes. The offset index, which proves that all are there, comes last."""
        self.times.add(*self.largest_timestamp)
        for index in (self.aborted, self.times, self.offsets):
            if index.size_bytes:
                index.write()
                index.file.sync()
                self._pool.files.sync_dir(self._directory)

    def unsynced(self) -> Iterator[Unsynced]:
        """The files that a flush must sync: the log first, then the indexes."""
        if self.size_bytes != self.synced_bytes:
            yield Unsynced(self, self.file, self.size_bytes)
        for index in (self.offsets, self.times, self.aborted):
            # An emptied index counts, too: its old entries must not come back.
            if index.size_bytes != index.synced_bytes:
                index.write()
                yield Unsynced(index, index.file, index.written_bytes)

    # Finding

    def find_end(self) -> int:
        """The offset after the last batch; the base offset if there is none."""
        end_offset = self.base_offset
        for placed in self.walk(self.offsets.last_position):
            end_offset = placed.header.next_offset
        return end_offset

    def end_before(self, offset: int) -> int:
        """The offset after the last batch that ends before `offset`: a truncation ends there."""
        if self.find(offset) is None:  # this mends a wrong index, too
            return self.find_end()
        end_offset = self.base_offset
        for placed in self._look(self.offsets.position_before(offset - 1)):
            if placed.header.last_offset >= offset:
                break
            end_offset = placed.header.next_offset
        return end_offset

    def walk(
        self, position: int = 0, *, end: int | None = None, read: ReadAt = read_waiting
    ) -> BatchWalk:
        """Iterates over all batches from `position` on, with large reads."""
        end = self.size_bytes if end is None else end
        return BatchWalk(
            self.file, position, end, SCAN_WINDOW_BYTES, offset_max=self._offset_max, read=read
        )

    def _look(self, position: int, read: ReadAt = read_waiting) -> BatchWalk:
        """Iterates over a few batches from `position` on, with small reads."""
        end, offset_max = self.size_bytes, self._offset_max
        return BatchWalk(self.file, position, end, offset_max=offset_max, read=read)

    @property
    def _offset_max(self) -> int:
        return self.base_offset + OFFSET_DELTA_MAX

    def find(self, offset: int, read: ReadAt = read_waiting) -> Placed | None:
        """The first batch that ends at or beyond `offset`."""
        start = self.offsets.position_before(offset, read)
        try:
            if start and start >= self.size_bytes:
                raise CorruptLog(self.offsets.path, start, "the index points behind the log")
            for placed in self._look(start, read):
                if placed.header.last_offset >= offset:
                    # The index entry says that this batch ends at or before `offset`.
                    if start and placed.position == start and placed.header.last_offset > offset:
                        raise CorruptLog(self.offsets.path, start, "the index entry is wrong")
                    return placed
        except CorruptLog:
            if start == 0:
                raise
            # The log is the truth: an index that points into the middle of a batch is rebuilt.
            self.rebuild_indexes()
            return self.find(offset, read)
        return None

    def batch_by_time(
        self, timestamp_ms: int, offset: int, read: ReadAt = read_waiting
    ) -> StoredBatch | Unfinished | None:
        """The first batch that ends at or beyond `offset` with at least this max timestamp."""
        if self.largest_timestamp[0] < timestamp_ms:
            return None
        first = max(offset, self.base_offset, self.times.offset_before(timestamp_ms, read))
        found = self.find(first, read)
        if found is None:
            return None
        walk = self._look(found.position, read)
        for placed in walk:
            if placed.header.max_timestamp >= timestamp_ms:
                return _stored(walk, placed)
            if placed.position - found.position > STEP_BYTES:
                return Unfinished(placed.header.next_offset)
        return None

    def batch_at(self, offset: int, read: ReadAt = read_waiting) -> StoredBatch | None:
        """The first batch that ends at or beyond `offset`."""
        found = self.find(offset, read)
        return _stored(self._look(found.position, read), found) if found else None

    def latest_claim(
        self, offset: int, read: ReadAt = read_waiting
    ) -> tuple[LatestClaim | None, Unfinished | None]:
        """The largest max timestamp in the headers of batches that begin at or beyond `offset`."""
        claim: LatestClaim | None = None
        found = self.find(offset, read)
        if found is None:
            return None, None
        for position, header in self.walk(found.position, read=read):
            # A batch that compaction emptied has the timestamp of removed records.
            if header.count and header.base_offset >= offset:
                each = LatestClaim(
                    header.max_timestamp, header.base_offset, header.partition_leader_epoch
                )
                if claim is None or each.timestamp_ms > claim.timestamp_ms:
                    claim = each
            if position - found.position > STEP_BYTES:
                return claim, Unfinished(header.next_offset)
        return claim, None

    def slice(self, found: Found, end_position: int, bytes_max: int) -> FileSlice:
        """The slice from a batch on: at least that batch, else at most `bytes_max`."""
        size = min(max(bytes_max, found.size), end_position - found.position)
        return FileSlice(self.file, found.position, size, self._extent)

    # Shrinking

    def truncate(self, position: int, next_offset: int) -> None:
        """Removes the batches from `position` on. `next_offset` is the offset of the first."""
        self._end_slices(position)
        self.offsets.truncate_to(next_offset)
        self.times.truncate_to(next_offset)
        self.aborted.truncate_to(next_offset)
        self.file.truncate(position)
        self.size_bytes = position
        self.synced_bytes = -1
        self._restore_notes(next_offset)

    def rebuild_indexes(self) -> None:
        """Rebuilds the offset index and the time index from the batch headers."""
        self.offsets.truncate(0)
        self.times.truncate(0)
        self.largest_timestamp = self.times.last
        self._bytes_since_entry = 0
        for placed in self.walk():
            self.note(placed.position, placed.header)

    def forget_from(self, offset: int) -> int:
        """Keeps index entries below `offset`. Returns the position to index batches from."""
        self.offsets.keep_valid(offset, self.size_bytes)
        self.aborted.keep_valid(offset)
        if not (self.has_indexes and self.times.keep_valid(offset)):
            # Entries are lost: all batches must be indexed again.
            self.offsets.truncate(0)
            self.times.truncate(0)
        self.largest_timestamp = self.times.last
        self._bytes_since_entry = 0
        self.size_bytes = self.offsets.last_position
        return self.size_bytes

    def cut_to_noted(self) -> int:
        """Truncates the file behind the last indexed batch. Returns the number of bytes cut."""
        cut_bytes = self.file.size() - self.size_bytes
        self.file.truncate(self.size_bytes)
        return cut_bytes

    def mark_deleted(self, suffix: str) -> list[str]:
        """Renames the files with a suffix. Returns their new paths, to be removed later."""
        renamed = []
        for path in map(self.path, SUFFIXES):
            self._pool.forget(path)
            with contextlib.suppress(FileNotFoundError):
                self._pool.files.rename(path, path + suffix)
                renamed.append(path + suffix)
        return renamed

    def _end_slices(self, position: int) -> None:
        """Slices that reach beyond `position` are not sent any more: other bytes may follow it."""
        self._extent = self._extent.end_at(position)

    def remove(self) -> None:
        self._end_slices(0)
        for path in map(self.path, SUFFIXES):
            self._pool.forget(path)
            with contextlib.suppress(FileNotFoundError):
                self._pool.files.remove(path)

    def _restore_notes(self, next_offset: int) -> None:
        """Finds the largest timestamp again after a truncation, from the last entry on."""
        self.largest_timestamp = self.times.last
        self._count_bytes_since_entry()
        start = self.offsets.position_before(next_offset) if len(self.offsets) else 0
        for placed in self._look(start):
            if placed.header.max_timestamp > self.largest_timestamp[0]:
                self.largest_timestamp = (placed.header.max_timestamp, placed.header.last_offset)
        if self.size_bytes == 0:
            self._first_timestamp_ms = None

    def _count_bytes_since_entry(self) -> None:
        self._bytes_since_entry = self.size_bytes - self.offsets.last_position


def _stored(walk: BatchWalk, placed: Placed) -> StoredBatch:
    """The whole batch. CorruptLog if its checksum is wrong. Any other fault of its records is that
    of the client."""
    if not walk.crc_is_valid(placed):
        raise CorruptLog(walk.path, placed.position, "the batch's checksum is wrong")
    return stored_batch(walk.batch(placed))
