"""Replaying a shard's log, in slices: others have their turn after each millisecond of it, however
long a batch is, and however much the machine decides once it is loaded.

Compaction may shorten the log to the last record of each key. So only the last record of each key
counts, in the order of their offsets, and only these are decoded.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from ottla.coordinators.runtime.shard import Shard
from ottla.errors import CorruptLog, StorageError
from ottla.protocol import batch
from ottla.protocol.batch import HEADER_BYTES, BatchHeader, MarkerKind
from ottla.replication.fetch.cold_reads import ColdReads
from ottla.seams.clock import Clock
from ottla.seams.threads import Threads
from ottla.storage.log.file_slice import FileSlice
from ottla.storage.log.log import Log

READ_BYTES = 1 << 20
SLICE_NS_MAX = 1_000_000
# How many records of a batch are taken before somebody looks at the clock.
RECORDS_AT_ONCE = 64


class Latest(NamedTuple):
    """The last record of a key, and where it is."""

    offset: int
    value: bytes | None


class Loader:
    """Loads one shard. `skipped` is told of records that cannot be read, and where."""

    def __init__(
        self,
        shard: Shard[Any, Any],
        clock: Clock,
        threads: Threads,
        skipped: Callable[[int, StorageError], None],
    ) -> None:
        self._shard = shard
        self._clock = clock
        self._threads = threads
        self._cold_reads = ColdReads(threads)
        self._skipped = skipped
        # By key, in the order of their offsets.
        self._latest: dict[bytes, Latest] = {}
        # What producers wrote in transactions that have not ended yet.
        self._open: dict[int, list[batch.Record]] = {}
        # For how long others have waited for their turn, at most.
        self.longest_slice_ns = 0
        self._slice_began_ns = clock.steady_ns()

    async def load(self) -> bool:
        """Replays all that the log holds, and the shard begins; whether it is still wanted then.

        StorageError or OSError if the log cannot be read, PeerError if the shard cannot begin.
        """
        if self._shard.replica.log is not None:
            await self._read(self._shard.replica.log)
            await self._replay()
        await self._begin()
        self._end_slice()
        return self._shard.is_loaded and not self._shard.is_closed

    async def _read(self, log: Log) -> None:
        """Notes what the log says, to its end."""
        offset, end_offset = log.start_offset, log.end_offset
        while offset < end_offset and not self._shard.is_closed:
            piece = await self._cold_reads.look(log, partial(_piece, log, offset, end_offset))
            if piece is None:
                break  # what compaction left ends before the log does
            self._end_slice()
            content = await self._threads.run(piece.read)
            self._slice_began_ns = self._clock.steady_ns()
            for position, header in _whole_batches(content, piece):
                for _ in self._taken(content, position, header):
                    if self._is_slice_over:
                        await self._give_way()
                offset = header.next_offset

    def _taken(self, content: bytes, position: int, header: BatchHeader) -> Iterator[None]:
        """Notes the records of a batch, some with each step, or how a transaction ended."""
        if header.is_control:
            self._end_transaction(content, position, header)
            return
        for count, record in enumerate(batch.records(content, position), 1):
            if header.is_transactional:
                self._open.setdefault(header.producer_id, []).append(record)
            else:
                self._note(record)
            if count % RECORDS_AT_ONCE == 0:
                yield
        yield

    def _note(self, record: batch.Record) -> None:
        key = record.key or b""
        # Taken out first: a key's place is that of its last record.
        self._latest.pop(key, None)
        self._latest[key] = Latest(record.offset, record.value)

    def _end_transaction(self, content: bytes, position: int, header: BatchHeader) -> None:
        if header.count == 0:
            return
        marker = batch.read_marker(content, position)
        written = self._open.pop(header.producer_id, [])
        if marker is not None and marker.kind is MarkerKind.COMMIT:
            for record in written:
                self._note(record)

    async def _replay(self) -> None:
        machine = self._shard.machine
        for key, latest in self._latest.items():
            if self._is_slice_over:
                await self._give_way()
                if self._shard.is_closed:
                    return
            try:
                record = machine.decode(key, latest.value)
            except StorageError as error:
                self._skipped(latest.offset, error)
                continue
            if record is not None:
                machine.replay(record)

    async def _begin(self) -> None:
        """The machine decides what follows from the log; then the shard takes requests."""
        for _ in self._shard.loaded():
            if self._shard.is_closed:
                return
            if self._is_slice_over:
                await self._give_way()

    async def _give_way(self) -> None:
        """Others have their turn; then the next slice begins."""
        self._end_slice()
        await asyncio.sleep(0)
        self._slice_began_ns = self._clock.steady_ns()

    @property
    def _is_slice_over(self) -> bool:
        return self._clock.steady_ns() >= self._slice_began_ns + SLICE_NS_MAX

    def _end_slice(self) -> None:
        slice_ns = self._clock.steady_ns() - self._slice_began_ns
        self.longest_slice_ns = max(self.longest_slice_ns, slice_ns)


def _piece(log: Log, offset: int, end_offset: int, warm_only: bool) -> FileSlice | None:
    return log.read(offset, bytes_max=READ_BYTES, end_offset=end_offset, warm_only=warm_only)


def _whole_batches(content: bytes, piece: FileSlice) -> Iterator[tuple[int, BatchHeader]]:
    """The batches that are there to their end: the last one may be cut, the first one never is."""
    position = 0
    while position == 0 or position + HEADER_BYTES <= len(content):
        path, place = piece.file.path, piece.position + position
        if position + HEADER_BYTES > len(content):
            raise CorruptLog(path, place, "no whole header")
        header = batch.read_header(content, position)
        if position > 0 and position + header.size > len(content):
            return
        if not batch.crc_is_valid(content, header, position):
            raise CorruptLog(path, place, "not what its CRC says")
        yield position, header
        position += header.size
