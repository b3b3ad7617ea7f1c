"""The format of Kafka's producer state snapshot (`.snapshot`).

Kafka writes one row per producer, with its last batch only: after a restart it does not know the
other batches that a client may repeat. Ottla writes a row for each of these before that of the
last batch. Kafka keeps the last row of a producer, and so reads what it would have written.
"""

from collections.abc import Iterable, Iterator
from struct import Struct

from crc32c import crc32c

from ottla.errors import CorruptLog
from ottla.storage.producers.entry import (
    BATCHES_KEPT,
    NO_OFFSET,
    NO_SEQUENCE,
    BatchSpan,
    ProducerEntry,
)

SUFFIX = ".snapshot"
VERSION = 1

# Version, then the CRC-32C of all that follows it.
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
# Producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first
# offset of the open transaction.
_ENTRY = Struct(">qhiqiqiq")
_NO_BATCH = BatchSpan(NO_SEQUENCE, NO_OFFSET, 0, 0)


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """The whole file, ordered by producer id, so that equal states give equal bytes."""
    packed = [_pack(row) for entry in sorted(entries) for row in _rows_of(entry)]
    body = b"".join((_COUNT.pack(len(packed)), *packed))
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode(content: bytes, path: str) -> list[ProducerEntry]:
    """The producers of a file. CorruptLog, with the position, if it is damaged."""
    entries: dict[int, ProducerEntry] = {}
    for row in rows(content, path):
        before = entries.get(row.producer_id)
        if before is not None and before.epoch == row.epoch:
            batches = (*before.batches, *row.batches)[-BATCHES_KEPT:]
            entries[row.producer_id] = row._replace(batches=batches)
        else:
            entries[row.producer_id] = row
    return list(entries.values())


def rows(content: bytes, path: str) -> list[ProducerEntry]:
    """The rows of a file, each with at most one batch. CorruptLog as with `decode`."""
    if len(content) < _HEAD.size + _COUNT.size:
        raise CorruptLog(path, len(content), "the file ends in its head")
    version, checksum = _HEAD.unpack_from(content)
    if version != VERSION:
        raise CorruptLog(path, 0, f"version {version}, only {VERSION} is known")
    body = memoryview(content)[_HEAD.size :]
    if crc32c(body) != checksum:
        raise CorruptLog(path, _HEAD.size, "the checksum is wrong")
    (count,) = _COUNT.unpack_from(body)
    entries = body[_COUNT.size :]
    if len(entries) != count * _ENTRY.size:
        raise CorruptLog(path, _HEAD.size, f"{count} producers announced in {len(entries)} bytes")
    return [_unpack(*fields) for fields in _ENTRY.iter_unpack(entries)]


def _rows_of(entry: ProducerEntry) -> Iterator[ProducerEntry]:
    """One row per batch. Only the last one has the open transaction."""
    for span in entry.batches[:-1]:
        yield entry._replace(
            batches=(span,),
            last_timestamp_ms=span.timestamp_ms,
            transaction_first_offset=NO_OFFSET,
        )
    yield entry


def _pack(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else _NO_BATCH
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


def _unpack(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp_ms: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerEntry:
    span = BatchSpan(last_sequence, last_offset, offset_delta, timestamp_ms)
    return ProducerEntry(
        producer_id=producer_id,
        epoch=epoch,
        batches=(span,) if last_offset >= 0 else (),
        last_timestamp_ms=timestamp_ms,
        coordinator_epoch=coordinator_epoch,
        transaction_first_offset=transaction_first_offset,
    )
