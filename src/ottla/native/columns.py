"""Reads the records of batches into columns in Arrow's memory layout.

First `Rows.take` reads records in place: it writes the columns of numbers, and notes the positions
of keys, values and headers. Then `Rows.columns` knows the size of these, and copies them.

Every step is checked against the end of the buffer. Invalid bytes raise ValueError, which names the
byte.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import cython

Buffer = bytes | bytearray | memoryview

# Flags for the requested columns.
KEY = 1
VALUE = 2
OFFSET = 4
TIMESTAMP = 8
TIMESTAMP_TYPE = 16
HEADERS = 32

# Arrow's offsets have 32 bits, which limits the bytes of a column.
BYTES_MAX = 0x7FFFFFFF

# No offset delta is larger.
DELTA_MAX = 0x7FFFFFFF

# Attributes, two deltas, two lengths and a count, of one byte each.
_RECORD_LENGTH_MIN = cython.declare(cython.Py_ssize_t, 6)
_INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_MICROSECONDS = cython.declare(cython.longlong, 1000)
_MILLISECONDS_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF // 1000)


class BinaryColumn(NamedTuple):
    """A column of bytes: row n is `content` from `offsets[n]` to `offsets[n + 1]`.

    A row whose bit in `validity` is 0 is null; without `validity` no row is null.
    """

    null_count: int
    validity: bytearray | None
    offsets: memoryview
    content: bytearray


class HeaderColumn(NamedTuple):
    """A column of lists: row n has names and values from `offsets[n]` to `offsets[n + 1]`."""

    null_count: int
    validity: bytearray | None
    offsets: memoryview
    names: BinaryColumn
    values: BinaryColumn


class Columns(NamedTuple):
    """The requested columns of some rows; others are None. Timestamps are in microseconds."""

    row_count: int
    key: BinaryColumn | None
    value: BinaryColumn | None
    offset: memoryview | None
    timestamp: memoryview | None
    timestamp_type: memoryview | None
    headers: HeaderColumn | None


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

    def __init__(self, body: Buffer) -> None:
        self.view = body
        self.position = 0
        self.end = len(body)
        self.limit = self.end
        self.fault = 0
        self.fault_position = 0

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
    def refuse(self) -> cython.longlong:
        raise ValueError(f"byte {self.fault_position}: {_FAULTS[self.fault]}")


@cython.final
@cython.cclass
class _Fields:
    """The positions of a column's rows in their source and in the column."""

    starts: cython.longlong[::1]
    ends: cython.int[::1]
    validity: cython.uchar[::1]
    null_count: cython.Py_ssize_t
    # The same as Python objects, for the result.
    all_ends: Any
    all_validity: Any

    def __init__(self, capacity: int) -> None:
        # Never empty, so that a view of it can be made.
        self.starts = array("q", bytes(8 * (capacity + 1)))
        self.all_ends = array("i", bytes(4 * (capacity + 1)))
        self.all_validity = bytearray(b"\xff") * (capacity // 8 + 1)
        self.ends = self.all_ends
        self.validity = self.all_validity
        self.null_count = 0

    @cython.cfunc
    @cython.initializedcheck(False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    @cython.exceptval(-2, check=True)
    def put(
        self, row: cython.Py_ssize_t, position: cython.Py_ssize_t, length: cython.longlong
    ) -> cython.longlong:
        """Adds a row of `length` bytes that end at `position`; a negative length is null."""
        if length < 0:
            self.validity[row >> 3] &= 0xFF ^ (1 << (row & 7))
            self.null_count += 1
            length = 0
        self.starts[row] = position - length
        self.ends[row + 1] = self.ends[row] + cython.cast(cython.int, length)
        return length

    @cython.cfunc
    @cython.initializedcheck(False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    @cython.exceptval(-2, check=True)
    def copy(
        self,
        source: cython.const[cython.uchar][::1],
        target: cython.uchar[::1],
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> cython.longlong:
        """Copies the rows from `first` to before `last` from their source."""
        row: cython.Py_ssize_t
        index: cython.Py_ssize_t
        for row in range(first, last):
            start: cython.Py_ssize_t = self.starts[row]
            begin: cython.Py_ssize_t = self.ends[row]
            length: cython.Py_ssize_t = self.ends[row + 1] - begin
            if cython.compiled:
                # Most fields are short: a loop is faster than a slice.
                for index in range(length):
                    target[begin + index] = source[start + index]
            else:
                target[begin : begin + length] = source[start : start + length]
        return last

    @cython.cfunc
    def column(self, pieces: list[tuple[Buffer, int, int]], row_count: int) -> BinaryColumn:
        """The column of the first `row_count` rows; each piece holds some of them."""
        content = bytearray(self.ends[row_count])
        if content:
            # A view accepts only slices of equal length, compiled or not.
            target: cython.uchar[::1] = memoryview(content)
            for body, first, last in pieces:
                source: cython.const[cython.uchar][::1] = body
                self.copy(source, target, first, last)
        return BinaryColumn(
            self.null_count,
            self.all_validity if self.null_count else None,
            memoryview(self.all_ends)[: row_count + 1],
            content,
        )


@cython.final
@cython.cclass
class Rows:
    """Collects at most `capacity` rows for one batch of columns.

    It takes records with offsets from `first_offset` to before `end_offset`, up to `bytes_max` in
    total, but at least one record. `wanted` is the sum of the flags of the requested columns.
    """

    capacity: cython.Py_ssize_t
    count: cython.Py_ssize_t
    bytes_max: cython.longlong
    bytes_taken: cython.longlong
    first_offset: cython.longlong
    end_offset: cython.longlong
    wants_key: cython.bint
    wants_value: cython.bint
    wants_offset: cython.bint
    wants_timestamp: cython.bint
    wants_timestamp_type: cython.bint
    wants_headers: cython.bint
    offsets: cython.longlong[::1]
    timestamps: cython.longlong[::1]
    timestamp_types: cython.int[::1]
    all_offsets: Any
    all_timestamps: Any
    all_timestamp_types: Any
    keys: _Fields
    values: _Fields
    # A row's headers, as one field whose length is the number of headers.
    headers: _Fields
    reader: _Reader
    # The range of the next record's offset delta.
    delta_min: cython.longlong
    delta_max: cython.longlong
    body: Any
    # Sources, each with its range of rows: the first, and the one after the last.
    pieces: list[tuple[Any, int, int]]

    def __init__(
        self, wanted: int, capacity: int, bytes_max: int, first_offset: int, end_offset: int
    ) -> None:
        if capacity < 1 or not 0 <= bytes_max <= BYTES_MAX:
            raise ValueError(f"{capacity} rows of {bytes_max} bytes")
        self.wants_key = wanted & KEY != 0
        self.wants_value = wanted & VALUE != 0
        self.wants_offset = wanted & OFFSET != 0
        self.wants_timestamp = wanted & TIMESTAMP != 0
        self.wants_timestamp_type = wanted & TIMESTAMP_TYPE != 0
        self.wants_headers = wanted & HEADERS != 0
        self.capacity = capacity
        self.count = 0
        self.bytes_max = bytes_max
        self.bytes_taken = 0
        self.first_offset = first_offset
        self.end_offset = end_offset
        self.all_offsets = array("q", bytes(8 * (capacity if self.wants_offset else 1)))
        self.all_timestamps = array("q", bytes(8 * (capacity if self.wants_timestamp else 1)))
        self.all_timestamp_types = array(
            "i", bytes(4 * (capacity if self.wants_timestamp_type else 1))
        )
        self.offsets = self.all_offsets
        self.timestamps = self.all_timestamps
        self.timestamp_types = self.all_timestamp_types
        self.keys = _Fields(capacity if self.wants_key else 0)
        self.values = _Fields(capacity if self.wants_value else 0)
        self.headers = _Fields(capacity if self.wants_headers else 0)
        self.body = None
        self.delta_min = 0
        self.delta_max = DELTA_MAX
        self.reader = _Reader(b"")
        self.pieces = []

    def row_count(self) -> int:
        """The number of rows so far."""
        return self.count

    def next_delta(self) -> int:
        """The smallest offset delta that the next record may have."""
        return self.delta_min

    def take(
        self,
        body: Buffer,
        position: int,
        end: int,
        count: int,
        base_offset: int,
        base_timestamp: int,
        stamped: bool,
        first_delta: int = 0,
        last_delta: int = DELTA_MAX,
    ) -> tuple[int, int]:
        """Takes as many of the `count` records between `position` and `end` as there is room for.

        Returns the start of the rest and its number of records. If the batch is `stamped`
        (LogAppendTime), all its records have the base timestamp. Offset deltas must rise, from
        `first_delta` to `last_delta`; `next_delta` is the smallest that the rest may have.
        ValueError at a bad record; the records before it are taken.
        """
        if not 0 <= position <= end <= len(body) or count < 0:
            raise ValueError(f"byte {position}: {count} records up to byte {end} of {len(body)}")
        if body is not self.body:
            self.body = body
            self.reader = _Reader(body)
            self.pieces.append((body, self.count, self.count))
        self.reader.position = position
        self.reader.end = end
        self.reader.fault = 0
        self.delta_min = first_delta
        self.delta_max = last_delta
        try:
            left = self._take(count, base_offset, base_timestamp, stamped)
        finally:
            # The records before a bad one are taken too.
            _, first, _ = self.pieces.pop()
            self.pieces.append((body, first, self.count))
        if left == 0 and self.reader.position != end:
            behind = end - self.reader.position
            raise ValueError(f"byte {self.reader.position}: {behind} bytes behind the last record")
        return self.reader.position, left

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def _take(
        self,
        total: cython.longlong,
        base_offset: cython.longlong,
        base_timestamp: cython.longlong,
        stamped: cython.bint,
    ) -> cython.longlong:
        """The number of remaining records; the reader is at the first of them."""
        reader: _Reader = self.reader
        index: cython.longlong
        for index in range(total):
            record_start: cython.Py_ssize_t = reader.position
            length: cython.longlong = reader.begin_record()
            if self.count >= self.capacity or (
                self.count > 0 and length > self.bytes_max - self.bytes_taken
            ):
                reader.position = record_start
                return total - index
            start: cython.Py_ssize_t = reader.position
            timestamp: cython.longlong = base_timestamp
            delta: cython.longlong = reader.varint(64)
            if not stamped:
                timestamp = reader.moved(base_timestamp, delta, start)
            start = reader.position
            delta = reader.varint(32)
            if delta < self.delta_min or delta > self.delta_max:
                reader.note(_BAD_OFFSET, start)
            self.delta_min = delta + 1
            offset: cython.longlong = reader.moved(base_offset, delta, start)
            key_length: cython.longlong = reader.field()
            key_end: cython.Py_ssize_t = reader.position
            value_length: cython.longlong = reader.field()
            value_end: cython.Py_ssize_t = reader.position
            header_count: cython.longlong = reader.header_count()
            headers_start: cython.Py_ssize_t = reader.position
            if header_count > 0:
                reader.skip_headers(header_count)
            if reader.position != reader.limit:
                reader.note(_BYTES_LEFT, reader.position)
            if reader.fault:
                reader.refuse()
            if offset < self.first_offset or offset >= self.end_offset:
                continue
            if self.wants_key:
                self.keys.put(self.count, key_end, key_length)
            if self.wants_value:
                self.values.put(self.count, value_end, value_length)
            if self.wants_headers:
                # A record without headers has a null list.
                self.headers.put(
                    self.count, headers_start + header_count, header_count if header_count else -1
                )
            self._put_numbers(offset, timestamp, stamped)
            self.bytes_taken += length
            self.count += 1
        return 0

    @cython.cfunc
    @cython.initializedcheck(False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    @cython.exceptval(-2, check=True)
    def _put_numbers(
        self, offset: cython.longlong, timestamp: cython.longlong, stamped: cython.bint
    ) -> cython.longlong:
        if self.wants_offset:
            self.offsets[self.count] = offset
        if self.wants_timestamp:
            self.timestamps[self.count] = _microseconds(timestamp)
        if self.wants_timestamp_type:
            self.timestamp_types[self.count] = 1 if stamped else 0
        return offset

    def columns(self) -> Columns:
        """The columns of the rows that were taken. No more rows can be taken afterwards."""
        self.capacity = 0
        rows = self.count
        return Columns(
            rows,
            self.keys.column(self.pieces, rows) if self.wants_key else None,
            self.values.column(self.pieces, rows) if self.wants_value else None,
            memoryview(self.all_offsets)[:rows] if self.wants_offset else None,
            memoryview(self.all_timestamps)[:rows] if self.wants_timestamp else None,
            memoryview(self.all_timestamp_types)[:rows] if self.wants_timestamp_type else None,
            self._header_column() if self.wants_headers else None,
        )

    @cython.cfunc
    def _header_column(self) -> HeaderColumn:
        total: cython.Py_ssize_t = self.headers.ends[self.count]
        names: _Fields = _Fields(total)
        values: _Fields = _Fields(total)
        pieces = []
        for body, first, last in self.pieces:
            before: cython.Py_ssize_t = self.headers.ends[first]
            self._read_headers(_Reader(body), first, last, names, values)
            pieces.append((body, before, self.headers.ends[last]))
        return HeaderColumn(
            self.headers.null_count,
            self.headers.all_validity if self.headers.null_count else None,
            memoryview(self.headers.all_ends)[: self.count + 1],
            names.column(pieces, total),
            values.column(pieces, total),
        )

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def _read_headers(
        self,
        reader: _Reader,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
        names: _Fields,
        values: _Fields,
    ) -> cython.longlong:
        """Notes the positions of the headers of these rows, which are already validated."""
        row: cython.Py_ssize_t
        header: cython.Py_ssize_t
        for row in range(first, last):
            reader.position = self.headers.starts[row]
            for header in range(self.headers.ends[row], self.headers.ends[row + 1]):
                length: cython.longlong = reader.field()
                names.put(header, reader.position, length)
                length = reader.field()
                values.put(header, reader.position, length)
        return last


@cython.cfunc
@cython.exceptval(check=False)
def _microseconds(milliseconds: cython.longlong) -> cython.longlong:
    """Converts to microseconds, clamped to 64 bits."""
    if milliseconds > _MILLISECONDS_MAX:
        return _INT64_MAX
    if milliseconds < -_MILLISECONDS_MAX:
        return ~_INT64_MAX
    return milliseconds * _MICROSECONDS
