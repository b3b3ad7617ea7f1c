"""Reads the records of a batch from untrusted bytes.

A record (magic 2) is its length, then attributes, timestamp delta, offset delta, key, value and
headers; lengths and deltas are zigzag varints, and a length of -1 is null.

Every step is checked against the end of the buffer. Invalid bytes raise ValueError, which names the
byte.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import cython

from ottla.native.keymap import DISCARD_ALL

Buffer = bytes | bytearray | memoryview

# Attributes, two deltas, two lengths and a count, of one byte each.
_RECORD_LENGTH_MIN = cython.declare(cython.Py_ssize_t, 6)
_INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_BATCH_HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
_LOG_APPEND_TIME = cython.declare(cython.longlong, 0x08)
# No offset delta is larger.
DELTA_MAX = 0x7FFFFFFF
_DISCARD_ALL = cython.declare(cython.uchar, DISCARD_ALL)


# What can be wrong with a record.
_CUT_VARINT = cython.declare(cython.int, 1)
_LONG_VARINT = cython.declare(cython.int, 2)
_BAD_LENGTH = cython.declare(cython.int, 3)
_BAD_FIELD = cython.declare(cython.int, 4)
_BAD_HEADERS = cython.declare(cython.int, 5)
_BAD_OFFSET = cython.declare(cython.int, 6)
_PAST_64_BITS = cython.declare(cython.int, 7)
_BYTES_LEFT = cython.declare(cython.int, 8)
_FAULTS = (
    "",
    "a varint runs past the end",
    "a varint of too many bits",
    "a record that is too short, or runs past the end",
    "a field that is no field, or runs past the end",
    "headers of a number or a name that cannot be",
    "an offset delta that cannot be",
    "a delta that leads past 64 bits",
    "bytes left in a record",
)


# Raising takes room, and a function with room for it is not inlined: what is wrong is noted, and
# found once a record. Until then every read ends at the limit, and what it gives does not count.
@cython.final
@cython.cclass
class _Reader:
    """A position that moves over records."""

    view: cython.const[cython.uchar][::1]
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    # No read goes past it: the end of the record that is being read.
    limit: cython.Py_ssize_t
    # The first thing that was wrong, and where; 0 if nothing was.
    fault: cython.int
    fault_position: cython.Py_ssize_t
    # Of the batch that is being read, where that was asked for.
    base_offset: cython.longlong

    def __init__(self, body: Buffer, position: int) -> None:
        self.view = body
        self.position = position
        self.end = len(body)
        self.limit = self.end
        self.fault = 0
        self.fault_position = 0
        self.base_offset = 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def note(self, fault: cython.int, position: cython.Py_ssize_t) -> cython.longlong:
        if self.fault == 0:
            self.fault = fault
            self.fault_position = position
        return 0

    @cython.cfunc
    @cython.initializedcheck(False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    @cython.exceptval(check=False)
    def long_varint(self, bits: cython.int) -> cython.longlong:
        """One of several bytes, and of so many bits at most."""
        position: cython.Py_ssize_t = self.position
        shift: cython.int = 0
        raw: cython.ulonglong = 0
        byte: cython.ulonglong = 0x80
        while byte >= 0x80:
            if position >= self.limit:
                return self.note(_CUT_VARINT, self.position)
            byte = self.view[position]
            position += 1
            if shift + 7 > bits and byte >> (bits - shift):
                return self.note(_LONG_VARINT, self.position)
            raw |= (byte & 0x7F) << shift
            shift += 7
        self.position = position
        value: cython.longlong = raw >> 1
        return ~value if raw & 1 else value

    @cython.cfunc
    @cython.inline
    @cython.initializedcheck(False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    @cython.exceptval(check=False)
    def varint(self, bits: cython.int) -> cython.longlong:
        # Nearly all are of one byte or two.
        if self.limit - self.position < 2:
            return self.long_varint(bits)
        value: cython.longlong = self.view[self.position]
        if value < 0x80:
            self.position += 1
        elif self.view[self.position + 1] < 0x80:
            value = value & 0x7F | cython.cast(cython.longlong, self.view[self.position + 1]) << 7
            self.position += 2
        else:
            return self.long_varint(bits)
        return (value >> 1) ^ -(value & 1)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def begin_record(self) -> cython.longlong:
        """Step over a record's length and attributes."""
        start: cython.Py_ssize_t = self.position
        self.limit = self.end
        length: cython.longlong = self.varint(32)
        if length < _RECORD_LENGTH_MIN or length > self.end - self.position:
            return self.note(_BAD_LENGTH, start)
        self.limit = self.position + length
        self.position += 1
        return length

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def field(self) -> cython.longlong:
        """Step over a key or a value; its length, which is -1 for null."""
        start: cython.Py_ssize_t = self.position
        length: cython.longlong = self.varint(32)
        if length < -1 or length > self.limit - self.position:
            return self.note(_BAD_FIELD, start)
        if length > 0:
            self.position += length
        return length

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def header_count(self) -> cython.longlong:
        start: cython.Py_ssize_t = self.position
        count: cython.longlong = self.varint(32)
        if count < 0:
            return self.note(_BAD_HEADERS, start)
        return count

    @cython.cfunc
    @cython.exceptval(check=False)
    def skip_headers(self, count: cython.longlong) -> cython.longlong:
        index: cython.longlong
        for index in range(count):
            start: cython.Py_ssize_t = self.position
            if self.field() < 0:
                self.note(_BAD_HEADERS, start)
            self.field()
            if self.fault:
                return index
        return count

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def moved(
        self, base: cython.longlong, delta: cython.longlong, position: cython.Py_ssize_t
    ) -> cython.longlong:
        """The sum, if 64 bits have room for it."""
        if (delta > 0 and base > _INT64_MAX - delta) or (delta < 0 and base < ~_INT64_MAX - delta):
            return self.note(_PAST_64_BITS, position)
        return base + delta

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def begin_batch(self, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
        """Go to the first record of a batch."""
        self.base_offset = self.integer(start, 8)
        self.position = start + _BATCH_HEADER_BYTES
        self.end = end
        return self.base_offset

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def count_of(self, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
        """How many records a batch says it has; ValueError if there is no room for them."""
        if end - start < _BATCH_HEADER_BYTES:
            raise ValueError(f"byte {start}: {end - start} bytes are no batch")
        count: cython.longlong = self.integer(start + 57, 4)
        body_bytes: cython.longlong = end - start - _BATCH_HEADER_BYTES
        if count < 0 or count * (_RECORD_LENGTH_MIN + 1) > body_bytes:
            raise ValueError(f"byte {start}: {count} records in {body_bytes} bytes")
        if count == 0 and body_bytes:
            raise ValueError(f"byte {start}: {body_bytes} bytes of no record")
        return count

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def integer(self, position: cython.Py_ssize_t, size: cython.int) -> cython.longlong:
        """A signed integer of `size` bytes."""
        value: cython.longlong = self.view[position]
        if value >= 0x80:
            value -= 0x100
        place: cython.int
        for place in range(1, size):
            value = value * 256 + self.view[position + place]
        return value

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-2, check=True)
    def end_record(self) -> cython.longlong:
        """ValueError if anything was wrong with the record."""
        if self.position != self.limit:
            self.note(_BYTES_LEFT, self.position)
        if self.fault:
            self.refuse()
        return 0

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def refuse(self) -> cython.longlong:
        raise ValueError(f"byte {self.fault_position}: {_FAULTS[self.fault]}")


# Result of `survey`: end of the records, latest and earliest timestamp, number without a key.
Surveyed = tuple[int, int, int, int]


def survey(body: Buffer, position: int, first: int, last: int, base_timestamp: int) -> Surveyed:
    """Reads the records from index `first` to before `last`, the first of them at `position`.

    The latest timestamp is at least -1; the earliest is 2^63 - 1 if no record has a timestamp.
    Raises ValueError unless these are whole records whose offset deltas count up from `first`.
    """
    reader: _Reader = _Reader(body, position)
    begin: cython.longlong = first
    end: cython.longlong = last
    base: cython.longlong = base_timestamp
    latest: cython.longlong = -1
    earliest: cython.longlong = _INT64_MAX
    keyless: cython.longlong = 0
    index: cython.longlong
    for index in range(begin, end):
        reader.begin_record()
        start: cython.Py_ssize_t = reader.position
        timestamp: cython.longlong = reader.moved(base, reader.varint(64), start)
        if timestamp > latest:
            latest = timestamp
        if timestamp < earliest and timestamp != -1:
            earliest = timestamp
        start = reader.position
        delta: cython.longlong = reader.varint(32)
        if delta != index:
            reader.note(_BAD_OFFSET, start)
        if reader.field() < 0:
            keyless += 1
        reader.field()
        header_count: cython.longlong = reader.header_count()
        if header_count:
            reader.skip_headers(header_count)
        reader.end_record()
    return reader.position, latest, earliest, keyless


# The index of a record in its batch, whether it has a key, and its timestamp.
Flawed = tuple[int, bool, int]


def flawed(
    body: Buffer,
    position: int,
    first: int,
    last: int,
    base_timestamp: int,
    wants_keys: bool,
    earliest: int,
    latest: int,
) -> tuple[int, list[Flawed]]:
    """The end of surveyed records, and those that lack a required key or are out of range in time.

    A record without a timestamp is never out of range.
    """
    reader: _Reader = _Reader(body, position)
    begin: cython.longlong = first
    end: cython.longlong = last
    base: cython.longlong = base_timestamp
    first_time: cython.longlong = earliest
    last_time: cython.longlong = latest
    index: cython.longlong
    found: list[Flawed] = []
    for index in range(begin, end):
        reader.begin_record()
        start: cython.Py_ssize_t = reader.position
        timestamp: cython.longlong = reader.moved(base, reader.varint(64), start)
        reader.varint(32)
        has_key: cython.bint = reader.field() >= 0
        is_late: cython.bint = timestamp != -1 and (timestamp < first_time or timestamp > last_time)
        if is_late or (wants_keys and not has_key):
            found.append((index, bool(has_key), timestamp))
        reader.position = reader.limit
        reader.end_record()
    return reader.position, found


# Start of the next record; offset and timestamp of the record that was found, -1 if none was.
Timed = tuple[int, int, int]


def first_at(
    body: Buffer,
    position: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    stamped: bool,
    timestamp_min: int,
    offset_min: int,
    last_delta: int = DELTA_MAX,
) -> Timed:
    """The first of `count` records from `position` on with this timestamp and offset, or more."""
    reader: _Reader = _Reader(body, position)
    total: cython.longlong = count
    first_offset: cython.longlong = base_offset
    base: cython.longlong = base_timestamp
    time_min: cython.longlong = timestamp_min
    wanted_offset: cython.longlong = offset_min
    delta_max: cython.longlong = last_delta
    index: cython.longlong
    for index in range(total):  # noqa: B007 (a C loop needs its typed name)
        reader.begin_record()
        start: cython.Py_ssize_t = reader.position
        delta: cython.longlong = reader.varint(64)
        timestamp: cython.longlong = base if stamped else reader.moved(base, delta, start)
        start = reader.position
        delta = reader.varint(32)
        if delta < 0 or delta > delta_max:
            reader.note(_BAD_OFFSET, start)
        offset: cython.longlong = reader.moved(first_offset, delta, start)
        reader.position = reader.limit
        reader.end_record()
        if timestamp >= time_min and offset >= wanted_offset:
            return reader.position, offset, timestamp
    return reader.position, -1, -1


def latest_from(
    body: Buffer,
    position: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    stamped: bool,
    offset_min: int,
    last_delta: int = DELTA_MAX,
) -> tuple[int, int]:
    """The end of `count` records, and the latest timestamp from this offset on, or -1."""
    reader: _Reader = _Reader(body, position)
    total: cython.longlong = count
    first_offset: cython.longlong = base_offset
    base: cython.longlong = base_timestamp
    wanted_offset: cython.longlong = offset_min
    delta_max: cython.longlong = last_delta
    latest: cython.longlong = -1
    index: cython.longlong
    for index in range(total):  # noqa: B007 (a C loop needs its typed name)
        reader.begin_record()
        start: cython.Py_ssize_t = reader.position
        delta: cython.longlong = reader.varint(64)
        timestamp: cython.longlong = base if stamped else reader.moved(base, delta, start)
        start = reader.position
        delta = reader.varint(32)
        if delta < 0 or delta > delta_max:
            reader.note(_BAD_OFFSET, start)
        offset: cython.longlong = reader.moved(first_offset, delta, start)
        reader.position = reader.limit
        reader.end_record()
        if offset >= wanted_offset and timestamp > latest:
            latest = timestamp
    return reader.position, latest


def check_end(position: int, end: int) -> None:
    """Refuse bytes behind the last record."""
    if position != end:
        raise ValueError(f"byte {position}: {end - position} bytes behind the last record")


Header = tuple[str, bytes | None]
Row = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]


def read_rows(
    body: bytes,
    position: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    stamped: bool,
    first_delta: int = 0,
    last_delta: int = DELTA_MAX,
) -> tuple[list[Row], int]:
    """The `count` records from `position` on, and their end.

    A row is offset, timestamp, key, value, headers. If the batch is `stamped` (LogAppendTime), all
    its records have the base timestamp. Offset deltas must rise, from `first_delta` to
    `last_delta`. Header names that are not UTF-8 are kept as surrogate escapes.
    """
    reader: _Reader = _Reader(body, position)
    total: cython.longlong = count
    first_offset: cython.longlong = base_offset
    first_timestamp: cython.longlong = base_timestamp
    delta_min: cython.longlong = first_delta
    delta_max: cython.longlong = last_delta
    index: cython.longlong
    rows = []
    for index in range(total):  # noqa: B007 (a C loop needs its typed name)
        reader.begin_record()
        start: cython.Py_ssize_t = reader.position
        delta: cython.longlong = reader.varint(64)
        timestamp: cython.longlong = first_timestamp
        if not stamped:
            timestamp = reader.moved(first_timestamp, delta, start)
        start = reader.position
        delta = reader.varint(32)
        if delta < delta_min or delta > delta_max:
            reader.note(_BAD_OFFSET, start)
        delta_min = delta + 1
        offset: cython.longlong = reader.moved(first_offset, delta, start)
        key = _slice(body, reader)
        value = _slice(body, reader)
        headers = _read_headers(body, reader)
        reader.end_record()
        rows.append((offset, timestamp, key, value, headers))
    return rows, reader.position


@cython.cfunc
def _slice(body: bytes, reader: _Reader) -> bytes | None:
    length: cython.longlong = reader.field()
    if length < 0:
        return None
    return body[reader.position - length : reader.position]


@cython.cfunc
def _read_headers(body: bytes, reader: _Reader) -> tuple[Header, ...]:
    count: cython.longlong = reader.header_count()
    if count == 0:
        return ()
    index: cython.longlong
    headers = []
    for index in range(count):  # noqa: B007 (a C loop needs its typed name)
        start: cython.Py_ssize_t = reader.position
        name = _slice(body, reader)
        if name is None:
            reader.note(_BAD_HEADERS, start)
        value = _slice(body, reader)
        if reader.fault:
            break
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    return tuple(headers)


class KeyColumns(NamedTuple):
    """The positions of the record fields that the cleaner needs, one int64 column per field.

    A length is -1 for null. The attributes are the byte before `timestamp_starts`; the bytes after
    the timestamp begin at `offset_starts`.
    """

    # The index of each batch's first record, and one more entry: the number of records.
    first_rows: array[int]
    record_starts: array[int]
    record_ends: array[int]
    timestamp_starts: array[int]
    offset_starts: array[int]
    timestamp_deltas: array[int]
    offsets: array[int]
    key_starts: array[int]
    key_lengths: array[int]
    value_lengths: array[int]


def key_columns(content: Buffer, starts: array[int], verdicts: bytearray) -> KeyColumns:
    """The columns of the records of uncompressed or decompressed batches.

    `starts` has the start of each batch and the end of the last. Records of batches with the
    verdict `DISCARD_ALL` are not read. ValueError if records do not match their batch header.
    """
    reader: _Reader = _Reader(content, 0)
    batch_starts: cython.longlong[::1] = starts
    batch: cython.Py_ssize_t
    row_count: cython.Py_ssize_t = 0
    first_rows = array("q", bytes(8 * len(starts)))
    firsts: cython.longlong[::1] = first_rows
    total: cython.Py_ssize_t = len(starts) - 1
    for batch in range(total):
        if verdicts[batch] != _DISCARD_ALL:
            row_count += reader.count_of(batch_starts[batch], batch_starts[batch + 1])
        firsts[batch + 1] = row_count
    columns = KeyColumns(
        first_rows, *(array("q", bytes(8 * row_count)) for _ in KeyColumns._fields[1:])
    )
    if row_count:
        _fill_columns(reader, columns, batch_starts)
    return columns


@cython.cfunc
@cython.exceptval(-2, check=True)
def _fill_columns(
    reader: _Reader, columns: Any, batch_starts: cython.longlong[::1]
) -> cython.longlong:
    first_rows: cython.longlong[::1] = columns.first_rows
    record_starts: cython.longlong[::1] = columns.record_starts
    record_ends: cython.longlong[::1] = columns.record_ends
    timestamp_starts: cython.longlong[::1] = columns.timestamp_starts
    offset_starts: cython.longlong[::1] = columns.offset_starts
    timestamp_deltas: cython.longlong[::1] = columns.timestamp_deltas
    offsets: cython.longlong[::1] = columns.offsets
    key_starts: cython.longlong[::1] = columns.key_starts
    key_lengths: cython.longlong[::1] = columns.key_lengths
    value_lengths: cython.longlong[::1] = columns.value_lengths
    batch: cython.Py_ssize_t
    row: cython.Py_ssize_t
    total: cython.Py_ssize_t = len(batch_starts) - 1
    for batch in range(total):
        if first_rows[batch] == first_rows[batch + 1]:
            continue
        reader.begin_batch(batch_starts[batch], batch_starts[batch + 1])
        delta_min: cython.longlong = 0
        delta_max: cython.longlong = reader.integer(batch_starts[batch] + 23, 4)
        base_timestamp: cython.longlong = reader.integer(batch_starts[batch] + 27, 8)
        stamped: cython.bint = reader.integer(batch_starts[batch] + 21, 2) & _LOG_APPEND_TIME != 0
        for row in range(first_rows[batch], first_rows[batch + 1]):
            record_starts[row] = reader.position
            reader.begin_record()
            timestamp_starts[row] = reader.position
            timestamp_deltas[row] = reader.varint(64)
            if not stamped:
                reader.moved(base_timestamp, timestamp_deltas[row], timestamp_starts[row])
            offset_starts[row] = reader.position
            delta: cython.longlong = reader.varint(32)
            if delta < delta_min or delta > delta_max:
                reader.note(_BAD_OFFSET, offset_starts[row])
            delta_min = delta + 1
            offsets[row] = reader.moved(reader.base_offset, delta, offset_starts[row])
            length: cython.longlong = reader.field()
            key_lengths[row] = length
            key_starts[row] = reader.position - max(length, 0)
            value_lengths[row] = reader.field()
            reader.skip_headers(reader.header_count())
            reader.end_record()
            record_ends[row] = reader.position
        check_end(reader.position, reader.end)
    return total
