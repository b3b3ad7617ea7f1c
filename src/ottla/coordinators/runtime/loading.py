"""Replays a shard's log in slices of one millisecond, between which other tasks run.

Slices also divide long batches and the decisions of the loaded state machine. Compaction may
shorten the log to the last record of each key. So only the last record of each key is decoded and
replayed, in the order in which these records took effect.

A record of a transaction counts if the transaction is committed, and only if no later record of its
key took effect before the marker: compaction would keep that later record. The records of a
transaction that is open at the end of the log are pending.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from itertools import filterfalse
from typing import Any, NamedTuple

from ottla.coordinators.runtime.shard import Shard
from ottla.errors import CorruptLog, StorageError
from ottla.protocol import batch
from ottla.protocol.batch import HEADER_BYTES, BatchHeader, MarkerKind
from ottla.protocol.producer_epoch import NO_PRODUCER_ID
from ottla.replication.fetch.cold_reads import ColdReads
from ottla.seams.clock import Clock
from ottla.seams.threads import Threads
from ottla.storage.log.file_slice import FileSlice
from ottla.storage.log.log import Log

READ_BYTES = 1 << 20
SLICE_NS_MAX = 1_000_000
# The clock is read once per this many records of a batch.
RECORDS_PER_STEP = 64


class Latest(NamedTuple):
    """The last record of a key that is not pending, and its offset."""

    offset: int
    value: bytes | None


class Found(NamedTuple):
    """A record to replay. With a producer id it is a record of that producer's open transaction."""

    offset: int
    key: bytes
    value: bytes | None
    producer_id: int = NO_PRODUCER_ID


class Loader:
    """Loads one shard. `skipped` is called for each record that cannot be decoded."""

    def __init__(
        self,
        shard: Shard[Any, Any],
        clock: Clock,
        threads: Threads,
        skipped: Callable[[int, StorageError], None],
        read_bytes: int = READ_BYTES,
    ) -> None:
        self._read_bytes = read_bytes
        self._shard = shard
        self._clock = clock
        self._threads = threads
        self._cold_reads = ColdReads(threads)
        self._skipped = skipped
        # By key, in the order in which they took effect.
        self._latest: dict[bytes, Latest] = {}
        # Records of open transactions, by producer id.
        self._open: dict[int, list[batch.Record]] = {}
        # The last tombstone of each key, of those that were written since a transaction is open. A
        # tombstone may concern pending records even if another record of its key follows.
        self._tombstones: dict[bytes, batch.Record] = {}
        # The longest time for which no other task could run.
        self.longest_slice_ns = 0
        self._slice_began_ns = clock.steady_ns()

    async def load(self) -> bool:
        """Replays the log and activates the shard; False if the shard was closed meanwhile.

        StorageError or OSError if the log cannot be read, PeerError if the shard cannot start.
        """
        if self._shard.replica.log is not None:
            await self._read(self._shard.replica.log)
            await self._replay()
        await self._begin()
        self._end_slice()
        return self._shard.is_loaded and not self._shard.is_closed

    async def _read(self, log: Log) -> None:
        """Collects the last record of each key, and the records of open transactions."""
        offset, end_offset = log.start_offset, log.end_offset
        while offset < end_offset and not self._shard.is_closed:
            piece = await self._cold_reads.look(
                log, partial(_piece, log, offset, end_offset, self._read_bytes)
            )
            if piece is None:
                break  # compaction removed the last records below the end offset
            self._end_slice()
            content = await self._threads.run(piece.read)
            self._slice_began_ns = self._clock.steady_ns()
            for position, header in _whole_batches(content, piece):
                for _ in self._collect(content, position, header):
                    if self._is_slice_over:
                        await self._give_way()
                offset = header.next_offset

    def _collect(self, content: bytes, position: int, header: BatchHeader) -> Iterator[None]:
        """Collects the records of a batch in several steps, or ends a transaction."""
        if header.is_control:
            self._end_transaction(content, position, header)
            return
        for count, record in enumerate(batch.records(content, position), 1):
            if header.is_transactional:
                self._open.setdefault(header.producer_id, []).append(record)
            else:
                self._note(record)
            if count % RECORDS_PER_STEP == 0:
                yield
        yield

    def _note(self, record: batch.Record) -> None:
        key = record.key or b""
        # Removed first, so that the dict keeps the order.
        self._latest.pop(key, None)
        self._latest[key] = Latest(record.offset, record.value)
        if record.value is None and self._open:
            self._tombstones[key] = record

    def _end_transaction(self, content: bytes, position: int, header: BatchHeader) -> None:
        if header.count == 0:
            return
        marker = batch.read_marker(content, position)
        written = self._open.pop(header.producer_id, [])
        if marker is not None and marker.kind is MarkerKind.COMMIT:
            for record in written:
                if not self._is_overtaken(record):
                    self._note(record)
        if not self._open:
            self._tombstones.clear()

    def _is_overtaken(self, record: "batch.Record | Found") -> bool:
        """Whether a later record of its key has taken effect."""
        latest = self._latest.get(record.key or b"")
        return latest is not None and latest.offset > record.offset

    async def _replay(self) -> None:
        machine = self._shard.machine
        for offset, key, value, producer_id in self._found():
            if self._is_slice_over:
                await self._give_way()
                if self._shard.is_closed:
                    return
            try:
                record = machine.decode(key, value)
            except StorageError as error:
                self._skipped(offset, error)
                continue
            if record is None:
                continue
            if producer_id == NO_PRODUCER_ID:
                machine.replay(record)
            else:
                machine.replay_pending(record, producer_id)

    def _found(self) -> Iterator[Found]:
        """All records to replay. The records of each key come in the order of their offsets."""
        pending = sorted(
            Found(record.offset, record.key or b"", record.value, producer_id)
            for producer_id, written in self._open.items()
            for record in written
        )
        keys = {found.key for found in pending}
        tombstones = [
            Found(record.offset, key, None)
            for key, record in self._tombstones.items()
            if key in keys and self._is_overtaken(record)
        ]
        yield from sorted([*filter(self._is_overtaken, pending), *tombstones])
        for key, latest in self._latest.items():
            yield Found(latest.offset, key, latest.value)
        yield from filterfalse(self._is_overtaken, pending)

    async def _begin(self) -> None:
        """Carries out the decisions of the loaded machine; then the shard accepts requests."""
        for _ in self._shard.loaded():
            if self._shard.is_closed:
                return
            if self._is_slice_over:
                await self._give_way()

    async def _give_way(self) -> None:
        """Lets other tasks run, then starts the next slice."""
        self._end_slice()
        await asyncio.sleep(0)
        self._slice_began_ns = self._clock.steady_ns()

    @property
    def _is_slice_over(self) -> bool:
        return self._clock.steady_ns() >= self._slice_began_ns + SLICE_NS_MAX

    def _end_slice(self) -> None:
        slice_ns = self._clock.steady_ns() - self._slice_began_ns
        self.longest_slice_ns = max(self.longest_slice_ns, slice_ns)


def _piece(
    log: Log, offset: int, end_offset: int, bytes_max: int, warm_only: bool
) -> FileSlice | None:
    return log.read(offset, bytes_max=bytes_max, end_offset=end_offset, warm_only=warm_only)


def _whole_batches(content: bytes, piece: FileSlice) -> Iterator[tuple[int, BatchHeader]]:
    """The complete batches: the last one may be cut off, the first one never is."""
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
