"""The sparse indexes beside a segment: offset to position, time to offset, aborted transactions.

Entries have a fixed size and are appended in order. A look-up is a binary search among the first
entries of blocks, which are cached, and then in one block. New entries are kept in memory until
there are enough to write, or until the segment is flushed; look-ups see them at once.
"""

import contextlib
import errno
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from struct import Struct
from typing import NamedTuple

from ottla.seams.files import File, write_all
from ottla.storage.log.cold_read import ColdBytes, ColdRead, ReadAt, read_waiting
from ottla.storage.log.file_pool import FilePool
from ottla.storage.producers.state import AbortedTransaction

PENDING_BYTES_MAX = 4096
CHUNK_BYTES = 64 << 10
# The cache for the index of a 1 GiB segment takes 16 KB at most.
BLOCK_ENTRIES = 128
_NOT_READ = -1


class EntryFile:
    """A file of fixed-size entries, the last of them in memory. Created by the first write."""

    # The field by which entries are ordered and searched.
    KEY = 0
    __slots__ = ("_entry", "_firsts", "_pending", "_pool", "path", "synced_bytes", "written_bytes")

    def __init__(self, pool: FilePool, path: str, entry: Struct) -> None:
        self._pool = pool
        self._entry = entry
        self._pending = bytearray()
        # The key of each block's first entry, once it was read.
        self._firsts = array("q")
        self.path = path
        # -1: nothing is known about what is durable of a file that exists already.
        try:
            size, self.synced_bytes = pool.files.size(path), -1
        except FileNotFoundError:
            size, self.synced_bytes = 0, 0
        self.written_bytes = size - size % entry.size

    def __len__(self) -> int:
        return (self.written_bytes + len(self._pending)) // self._entry.size

    @property
    def size_bytes(self) -> int:
        return self.written_bytes + len(self._pending)

    def __getitem__(self, index: int) -> tuple[int, ...]:
        return self._entry_at(index, read_waiting)

    def _entry_at(self, index: int, read: ReadAt) -> tuple[int, ...]:
        position = index * self._entry.size
        if position >= self.written_bytes:
            return self._entry.unpack_from(self._pending, position - self.written_bytes)
        found = self._read(position, self._entry.size, read)
        if len(found) < self._entry.size:
            raise OSError(errno.EIO, f"the file ends before entry {index}", self.path)
        return self._entry.unpack(found)

    def _read(self, position: int, size: int, read: ReadAt) -> bytes | bytearray:
        file = self.file
        try:
            return read(file, position, size)
        except ColdRead:
            # The whole file: it is small, and a search would stop at one cold page after another.
            raise ColdRead(ColdBytes(file, 0, self.written_bytes)) from None

    def count_below(self, value: int) -> int:
        """The number of entries whose key is below `value`. Keys must rise."""
        return self._search(value, read_waiting)[0]

    def last_below(self, value: int, read: ReadAt = read_waiting) -> tuple[int, ...] | None:
        """The last entry whose key is below `value`."""
        return self._search(value, read)[1]

    def _search(self, value: int, read: ReadAt) -> tuple[int, tuple[int, ...] | None]:
        blocks = -(-len(self) // BLOCK_ENTRIES)
        if blocks > len(self._firsts):
            self._firsts.extend([_NOT_READ] * (blocks - len(self._firsts)))
        first_of = partial(self._first_of, read)
        begin = (bisect_left(range(blocks), value, key=first_of) - 1) * BLOCK_ENTRIES
        if begin < 0:
            return 0, None
        unpack_from, size, key = self._entry.unpack_from, self._entry.size, self.KEY
        block = self._bytes_of(begin, min(begin + BLOCK_ENTRIES, len(self)), read)
        # The block's first entry is below.
        count = bisect_left(
            range(len(block) // size),
            value,
            1,
            key=lambda index: unpack_from(block, index * size)[key],
        )
        return begin + count, unpack_from(block, (count - 1) * size)

    def _first_of(self, read: ReadAt, block: int) -> int:
        first = self._firsts[block]
        if first == _NOT_READ:
            first = self._entry_at(block * BLOCK_ENTRIES, read)[self.KEY]
            self._firsts[block] = first
        return first

    def _bytes_of(self, begin: int, end: int, read: ReadAt) -> bytes | bytearray:
        """The bytes of the entries from `begin` up to `end`."""
        first, last = begin * self._entry.size, end * self._entry.size
        in_file = min(last, self.written_bytes) - first
        found = self._read(first, in_file, read) if in_file > 0 else b""
        if len(found) < in_file:
            raise OSError(errno.EIO, f"the file ends before entry {end - 1}", self.path)
        if last <= self.written_bytes:
            return found
        pending = self._pending[max(first - self.written_bytes, 0) : last - self.written_bytes]
        return found + pending

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return self._all(read_waiting)

    def _all(self, read: ReadAt) -> Iterator[tuple[int, ...]]:
        position = 0
        chunk_bytes = CHUNK_BYTES - CHUNK_BYTES % self._entry.size
        while position < self.written_bytes:
            size = min(chunk_bytes, self.written_bytes - position)
            yield from self._entry.iter_unpack(self._read(position, size, read))
            position += size
        yield from self._entry.iter_unpack(bytes(self._pending))

    def append(self, *fields: int) -> None:
        self._append(self._entry.pack(*fields))

    def _append(self, entries: bytes) -> None:
        self._pending += entries
        if len(self._pending) >= PENDING_BYTES_MAX:
            # The batches of these entries are in the log already. A failed write is retried with
            # the next entry, and a flush does not succeed before it.
            with contextlib.suppress(OSError):
                self.write()

    def write(self) -> None:
        """Writes the entries in memory. Creates the file even without any."""
        try:
            file = self._pool.get(self.path)
        except FileNotFoundError:
            file = self._pool.create(self.path)
        if self._pending:
            self.written_bytes += write_all(file, self.written_bytes, [self._pending])
            self._pending.clear()

    @property
    def file(self) -> File:
        return self._pool.get(self.path)

    def truncate(self, count: int) -> None:
        """Keeps the first `count` entries."""
        size = count * self._entry.size
        del self._firsts[-(-count // BLOCK_ENTRIES) :]
        if size >= self.written_bytes:
            del self._pending[size - self.written_bytes :]
            return
        self._pending.clear()
        self.written_bytes = size
        self.file.truncate(size)
        self.synced_bytes = -1

    def trim(self) -> None:
        """Cuts a partial entry, and preallocated space, from the end of the file."""
        with contextlib.suppress(FileNotFoundError):
            if self.file.size() != self.written_bytes:
                self.file.truncate(self.written_bytes)
                self.synced_bytes = -1

    def _valid_count(self, is_valid: Callable[[tuple[int, ...], tuple[int, ...]], bool]) -> int:
        """The number of valid entries from the front. Each is compared with the one before."""
        count = 0
        before: tuple[int, ...] = ()
        for entry in self:
            if not is_valid(entry, before):
                break
            before = entry
            count += 1
        return count


class OffsetIndex(EntryFile):
    """Entries (last offset of a batch, its position); offsets are relative to the base offset."""

    ENTRY = Struct(">iI")
    __slots__ = ("_base_offset",)

    def __init__(self, pool: FilePool, path: str, base_offset: int) -> None:
        super().__init__(pool, path, self.ENTRY)
        self._base_offset = base_offset

    def add(self, last_offset: int, position: int) -> None:
        self.append(last_offset - self._base_offset, position)

    def add_all(self, entries: Iterable[tuple[int, int]]) -> None:
        """As `add`, for several batches."""
        pack, base_offset = self._entry.pack, self._base_offset
        self._append(b"".join([pack(last - base_offset, position) for last, position in entries]))

    @property
    def last_position(self) -> int:
        """The position of the last batch with an entry; 0 if there is none."""
        return self[len(self) - 1][1] if len(self) else 0

    def position_before(self, offset: int, read: ReadAt = read_waiting) -> int:
        """The position to start looking for `offset`: no batch beyond it lies before."""
        found = self.last_below(offset - self._base_offset + 1, read)
        return found[1] if found else 0

    def offset_behind(self, position: int, read: ReadAt = read_waiting) -> int | None:
        """An offset behind all batches before `position`; None if no entry is at or beyond it."""
        index = bisect_left(
            range(len(self)), position, key=lambda index: self._entry_at(index, read)[1]
        )
        if index == len(self):
            return None
        return self._base_offset + self._entry_at(index, read)[0] + 1

    def truncate_to(self, offset: int) -> None:
        """Drops every entry at or beyond `offset`."""
        self.truncate(self.count_below(offset - self._base_offset))

    def keep_valid(self, offset: int, size_bytes: int) -> None:
        """Keeps the entries from the front that are possible for a log that ends at `offset`."""
        relative_max = offset - self._base_offset

        def is_valid(entry: tuple[int, ...], before: tuple[int, ...]) -> bool:
            relative, position = entry
            relative_before, position_before = before or (-1, 0)
            return (
                relative_before < relative < relative_max
                and position_before < position < size_bytes
            )

        self.truncate(self._valid_count(is_valid))
        self.trim()

    def entries(self) -> Iterator[tuple[int, int]]:
        for relative, position in self:
            yield self._base_offset + relative, position


class TimeIndex(EntryFile):
    """Entries (largest timestamp so far, last offset of its batch); both only grow."""

    ENTRY = Struct(">qi")
    __slots__ = ("_base_offset", "last")

    def __init__(self, pool: FilePool, path: str, base_offset: int) -> None:
        super().__init__(pool, path, self.ENTRY)
        self._base_offset = base_offset
        self.last = self._read_last()

    def add(self, timestamp_ms: int, offset: int) -> None:
        """Adds an entry if the timestamp grew."""
        if timestamp_ms > self.last[0]:
            self.append(timestamp_ms, offset - self._base_offset)
            self.last = (timestamp_ms, offset)

    def offset_before(self, timestamp_ms: int, read: ReadAt = read_waiting) -> int:
        """The offset to start looking for `timestamp_ms`: no earlier batch reaches it."""
        found = self.last_below(timestamp_ms, read)
        return self._base_offset + (found[1] if found else 0)

    def truncate_to(self, offset: int) -> None:
        """Drops every entry at or beyond `offset`."""
        relative = offset - self._base_offset
        self.truncate(bisect_left(range(len(self)), relative, key=lambda index: self[index][1]))

    def truncate(self, count: int) -> None:
        super().truncate(count)
        self.last = self._read_last()

    def keep_valid(self, offset: int) -> bool:
        """Keeps the entries from the front that are possible for a log that ends at `offset`.

        Returns whether only entries beyond that end were dropped.
        """
        relative_max = offset - self._base_offset

        def is_valid(entry: tuple[int, ...], before: tuple[int, ...]) -> bool:
            timestamp_ms, relative = entry
            # Preallocated space reads as zeros, and no time index begins with the year 1970.
            timestamp_before, relative_before = before or (0, 0)
            return timestamp_ms > timestamp_before and relative_before <= relative < relative_max

        count = self._valid_count(is_valid)
        lost_none = count == len(self) or self[count][1] >= relative_max
        self.truncate(count)
        self.trim()
        return lost_none

    def entries(self) -> Iterator[tuple[int, int]]:
        for timestamp_ms, relative in self:
            yield timestamp_ms, self._base_offset + relative

    def _read_last(self) -> tuple[int, int]:
        if not len(self):
            return -1, self._base_offset
        timestamp_ms, relative = self[len(self) - 1]
        return timestamp_ms, self._base_offset + relative


class _Block(NamedTuple):
    """The lowest first offset of a block of entries, and the last stable offset of its last one."""

    first_offset: int
    last_stable_offset: int


class TransactionIndex(EntryFile):
    """The aborted transactions whose marker is in this segment, in the order of the markers.

    At each marker every transaction that is still open began at the last stable offset or later.
    So last stable offsets rise, and no later entry begins below that of an earlier one.
    """

    VERSION = 0
    ENTRY = Struct(">hqqqq")
    # The offset of the marker.
    KEY = 3
    __slots__ = ("_blocks", "last_offset")

    def __init__(self, pool: FilePool, path: str) -> None:
        super().__init__(pool, path, self.ENTRY)
        # The offset of the last marker; -1 if there is none.
        self.last_offset = self._read_last_offset()
        # Of whole blocks that were read. While one transaction is open for long, a look-up passes
        # all those that were aborted meanwhile, each time.
        self._blocks: dict[int, _Block] = {}

    def overlapping(
        self, start_offset: int, end_offset: int, read: ReadAt = read_waiting
    ) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions with a record in [start, end).

        The second result says that no entry of a later segment can have one.
        """
        found: list[AbortedTransaction] = []
        if start_offset > self.last_offset:
            return found, False
        begin, count = self._search(start_offset, read)[0], len(self)
        while begin < count:
            number = begin // BLOCK_ENTRIES
            end = min((number + 1) * BLOCK_ENTRIES, count)
            known = self._blocks.get(number)
            if known is None or known.first_offset < end_offset:
                entries = list(self._unpacked(begin, end, read))
                found += [entry for entry in entries if entry.first_offset < end_offset]
                known = _Block(
                    min(entry.first_offset for entry in entries), entries[-1].last_stable_offset
                )
                if len(entries) == BLOCK_ENTRIES:
                    self._blocks[number] = known
            if known.last_stable_offset >= end_offset:
                return found, True
            begin = end
        return found, False

    def _unpacked(self, begin: int, end: int, read: ReadAt) -> Iterator[AbortedTransaction]:
        for _, *fields in self._entry.iter_unpack(self._bytes_of(begin, end, read)):
            yield AbortedTransaction(*fields)

    def truncate(self, count: int) -> None:
        super().truncate(count)
        self.last_offset = self._read_last_offset()
        whole = count // BLOCK_ENTRIES
        self._blocks = {number: each for number, each in self._blocks.items() if number < whole}

    def add(self, entry: AbortedTransaction) -> None:
        self.append(self.VERSION, *entry)
        self.last_offset = entry.last_offset

    def entries(self, read: ReadAt = read_waiting) -> Iterator[AbortedTransaction]:
        for _, *fields in self._all(read):
            yield AbortedTransaction(*fields)

    def _read_last_offset(self) -> int:
        return self[len(self) - 1][self.KEY] if len(self) else -1

    def truncate_to(self, offset: int) -> None:
        """Drops every entry whose marker lies at or beyond `offset`."""
        self.truncate(self.count_below(offset))

    def keep_valid(self, offset: int) -> None:
        """Keeps the entries from the front that are possible for a log that ends at `offset`."""

        def is_valid(entry: tuple[int, ...], before: tuple[int, ...]) -> bool:
            version, _, first_offset, last_offset, _ = entry
            return (
                version == self.VERSION
                and first_offset < last_offset < offset
                and (not before or before[3] < last_offset)
            )

        self.truncate(self._valid_count(is_valid))
        self.trim()
