"""Record batches (magic 2): the header, the fields that a leader stamps, and the records.

    0  base offset              8 bytes  stamped by the leader, outside the CRC
    8  length of the rest       4
    12 leader epoch             4        stamped by the leader, outside the CRC
    16 magic                    1
    17 CRC-32C                  4        over everything from the attributes on
    21 attributes               2        codec, timestamp type, transactional, control, horizon
    23 last offset delta        4
    27 base timestamp           8        or the delete horizon, see `delete_horizon_ms`
    35 max timestamp            8
    43 producer id              8
    51 producer epoch           2
    53 base sequence            4
    57 count                    4
    61 records, compressed as one

A broker reads headers and keeps batches as the bytes that it received; only code that needs a
record's key, timestamp or value uses `records`.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

import crc32c

from ottla.errors import ErrorCode, PeerError
from ottla.native import build as native_build
from ottla.native import scan as native_scan
from ottla.protocol.compression import Buffer, Codec, compress, decompress
from ottla.tuples import maker

HEADER_BYTES = 61
# Base offset, length, leader epoch: a leader may change them without a new CRC.
PREFIX_BYTES = 16
MAGIC = 2
# The checksum covers everything from here on.
CRC_START = 21
# The default limit for the decompressed size of one batch.
DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024

_HEADER = Struct(">qiibIhiqqqhii")
_PREFIX = Struct(">qii")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")

# The length field does not count the base offset and itself.
UNCOUNTED_BYTES = 12
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35

CODEC_MASK = 0x07
_CODEC_MAX = max(Codec)
_LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40

_SEQUENCE_MAX = 0x7FFFFFFF
# Records are built in steps, so that a reader that stops early pays for few.
_ROWS_PER_STEP = 512


class CorruptBatch(PeerError):
    """Bytes that are not a record batch, and the position of the fault in their buffer."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"batch at byte {position}: {reason}")
        self.position = position
        self.reason = reason


class BatchHeader(NamedTuple):
    """The header's fields as they are on the wire, unchecked."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's noun; tuple.count is not needed

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.length + UNCOUNTED_BYTES

    def placed(self, base_offset: int, leader_epoch: int) -> "BatchHeader":
        """The header of the same batch with another offset and leader epoch."""
        # Called for every batch; `_replace` takes several times as long.
        return make_header((base_offset, self[1], leader_epoch, *self[3:]))

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The base offset of the next batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, which wraps to 0 after 2^31 - 1; -1 without one."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & _SEQUENCE_MAX

    @property
    def codec(self) -> int:
        """The codec's number: a `Codec` if the batch is valid."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & _LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & _CONTROL != 0

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may remove the tombstones and markers of this batch, if it is set.

        It is stored in place of the base timestamp, and timestamp deltas are relative to it.
        """
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None


make_header = maker(BatchHeader)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; `CorruptBatch` if fewer than 61 bytes remain."""
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatch(position, f"{len(buffer) - position} bytes are too few for a header")
    return make_header(_HEADER.unpack_from(buffer, position))


# Base offset, length and leader epoch as the first 16 bytes of a batch.
prefix: Callable[[int, int, int], bytes] = _PREFIX.pack


def stamp_log_append_time(
    batch: bytearray | memoryview, timestamp_ms: int, position: int = 0
) -> None:
    """Sets LogAppendTime for all records of the batch at `position`, with a new CRC."""
    header = read_header(batch, position)
    _ATTRIBUTES.pack_into(batch, position + _ATTRIBUTES_AT, header.attributes | _LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(batch, position + _MAX_TIMESTAMP_AT, timestamp_ms)
    _CRC.pack_into(batch, position + _CRC_AT, crc_of(batch, position, header.size))


def stamp_max_timestamp(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Writes the largest timestamp of the batch's records into its header, with a new CRC."""
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, timestamp_ms)
    _CRC.pack_into(batch, _CRC_AT, crc_of(batch, 0, len(batch)))


def crc_of(buffer: Buffer, position: int, size: int) -> int:
    """The CRC-32C of the batch of `size` bytes at `position`, from the attributes to the end."""
    with memoryview(buffer) as view:
        return crc32c.crc32c(view[position + CRC_START : position + size])


def crc_is_valid(buffer: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """Whether the whole batch is in the buffer and its CRC matches its header."""
    if not HEADER_BYTES <= header.size <= len(buffer) - position:
        return False
    return crc_of(buffer, position, header.size) == header.crc


class Record(NamedTuple):
    """One record, with its absolute offset and its timestamp in milliseconds since 1970."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def plain_records(
    buffer: Buffer, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Buffer:
    """The decompressed records section of the batch at `position`; a view if uncompressed.

    Raises `CorruptBatch` or the errors of `compression.decompress`; the CRC is not checked.
    """
    header = read_header(buffer, position)
    if header.magic != MAGIC:
        raise CorruptBatch(position, f"magic {header.magic}")
    if not HEADER_BYTES <= header.size <= len(buffer) - position:
        raise CorruptBatch(position, f"{header.size} bytes, but {len(buffer) - position} remain")
    if header.count < 0:
        raise CorruptBatch(position, f"a count of {header.count}")
    if header.codec > _CODEC_MAX:
        raise CorruptBatch(position, f"codec {header.codec}")
    body = memoryview(buffer)[position + HEADER_BYTES : position + header.size]
    if header.codec == Codec.NONE:
        return body
    return decompress(Codec(header.codec), body, decompressed_bytes_max)


def records(
    buffer: Buffer, position: int = 0, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """The records of the batch at `position`, built lazily.

    Raises `CorruptBatch` or the errors of `compression.decompress` when iteration meets the fault.
    """
    body = bytes(plain_records(buffer, position, decompressed_bytes_max=decompressed_bytes_max))
    header = read_header(buffer, position)
    stamped = header.is_log_append_time
    base_timestamp = header.max_timestamp if stamped else header.base_timestamp
    left = header.count
    at = delta = 0
    try:
        while left > 0:
            rows, at = native_scan.read_rows(
                body,
                at,
                min(left, _ROWS_PER_STEP),
                header.base_offset,
                base_timestamp,
                stamped,
                delta,
                header.last_offset_delta,
            )
            left -= len(rows)
            delta = rows[-1][0] - header.base_offset + 1
            yield from map(Record._make, rows)
        native_scan.check_end(at, len(body))
    except ValueError as error:
        raise CorruptBatch(position, f"records section, {error}") from None


def build(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Builds a batch of records with rising offsets, from `base_offset` on.

    A batch keeps its offset range after cleaning: `last_offset_delta` gives it, and `records` may
    then be empty. ValueError if a value does not fit the format.
    """
    if not records and last_offset_delta is None:
        raise ValueError("a batch without records needs its last offset delta")
    base_timestamp = records[0].timestamp if records else -1
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    encoded = native_build.encode_rows(records, base_offset, base_timestamp)
    if last_offset_delta is None:
        last_offset_delta = encoded.last_offset_delta
    elif last_offset_delta < encoded.last_offset_delta:
        raise ValueError(f"a record lies beyond the last offset delta, {last_offset_delta}")
    flags = (
        (_LOG_APPEND_TIME, log_append_time_ms is not None),
        (TRANSACTIONAL, transactional),
        (_CONTROL, control),
        (_DELETE_HORIZON, delete_horizon_ms is not None),
    )
    batch = bytearray(HEADER_BYTES)
    batch += encoded.body if codec == Codec.NONE else compress(codec, encoded.body)
    header = BatchHeader(
        base_offset=base_offset,
        length=len(batch) - UNCOUNTED_BYTES,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=codec | sum(flag for flag, is_set in flags if is_set),
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=encoded.max_timestamp if log_append_time_ms is None else log_append_time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=encoded.row_count,
    )
    _HEADER.pack_into(batch, 0, *header)
    _CRC.pack_into(batch, _CRC_AT, crc_of(batch, 0, len(batch)))
    return batch


def recompressed(
    header: BatchHeader, body: Buffer, codec: Codec, level: int | None = None
) -> bytearray:
    """The batch with this header and these uncompressed records, in another codec."""
    batch = bytearray(HEADER_BYTES)
    batch += body if codec == Codec.NONE else compress(codec, body, level)
    attributes = header.attributes & ~CODEC_MASK | codec
    renewed = header._replace(length=len(batch) - UNCOUNTED_BYTES, attributes=attributes)
    _HEADER.pack_into(batch, 0, *renewed)
    _CRC.pack_into(batch, _CRC_AT, crc_of(batch, 0, len(batch)))
    return batch


def compress_records(batch: bytearray) -> bytearray:
    """Compresses a batch's records, which are still plain, by the codec that its header names."""
    header = read_header(batch)
    if header.codec == Codec.NONE:
        return batch
    return recompressed(header, memoryview(batch)[HEADER_BYTES:], Codec(header.codec))


class MarkerKind(IntEnum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """The end of a transaction of the batch's producer, written by its coordinator."""

    kind: MarkerKind
    coordinator_epoch: int


# Version and type of a control record's key; version and coordinator epoch of a marker's value.
# Readers accept any version, since later versions only append fields.
CONTROL_KEY = Struct(">hh")
MARKER_VALUE = Struct(">hi")
_CONTROL_VERSION = 0


def build_marker(
    marker: Marker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch that ends a transaction: one record without a sequence number."""
    record = Record(
        offset=base_offset,
        timestamp=timestamp_ms,
        key=CONTROL_KEY.pack(_CONTROL_VERSION, marker.kind),
        value=MARKER_VALUE.pack(_CONTROL_VERSION, marker.coordinator_epoch),
    )
    return build(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(buffer: Buffer, position: int = 0) -> Marker | None:
    """The marker in the control batch at `position`.

    None for control records of other kinds, or if the cleaner removed the record. Raises
    `CorruptBatch` for a truncated marker.
    """
    record = next(records(buffer, position), None)
    if record is None:
        return None
    if record.key is None or len(record.key) < CONTROL_KEY.size:
        raise CorruptBatch(position, "a control record without its kind")
    _, kind = CONTROL_KEY.unpack_from(record.key)
    if kind not in (MarkerKind.ABORT, MarkerKind.COMMIT):
        return None
    if record.value is None or len(record.value) < MARKER_VALUE.size:
        raise CorruptBatch(position, "a transaction marker without its coordinator's epoch")
    _, coordinator_epoch = MARKER_VALUE.unpack_from(record.value)
    return Marker(MarkerKind(kind), coordinator_epoch)
