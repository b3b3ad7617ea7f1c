"""Reads the records of a batch that others wrote.

A record (magic 2) is its length, then attributes, timestamp delta, offset delta, key, value and
headers; lengths and deltas are zigzag varints, and a length of -1 is null.

Nothing here trusts what it reads: every step is checked against the end, and bytes that nobody
could have meant raise ValueError, which names the byte.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import cython

from ottla.native.keymap import ALL_GO

Buffer = bytes | bytearray | memoryview

# Attributes, two deltas, two lengths and a count, of one byte each.
_RECORD_LENGTH_MIN = cython.declare(cython.Py_ssize_t, 6)
_INT64_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_BATCH_HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
_ALL_GO = cython.declare(cython.uchar, ALL_GO)


# `exceptval` is a result that is seldom the right one: only behind it is an error looked for.
@cython.final
@cython.cclass
class _Reader:
    """A position that moves over the records of one batch."""

    view: cython.const[cython.uchar][::1]
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    # No read goes past it: the end of the record that is being read.
    limit: cython.Py_ssize_t
    # Of the batch that is being read, where that was asked for.
    base_offset: cython.longlong

    def __init__(self, body: Buffer, position: int) -> None:
        self.view = body
        self.position = position
        self.end = len(body)
        self.limit = self.end
        self.base_offset = 0

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

    # The limit is never beyond the end of what is in view.
    @cython.cfunc
    @cython.boundscheck(False)
    @cython.wraparound(False)
    @cython.exceptval(-2, check=True)
    def varlong(self) -> cython.longlong:
        start: cython.Py_ssize_t = self.position
        position: cython.Py_ssize_t = start
        shift: cython.int = 0
        raw: cython.ulonglong = 0
        byte: cython.ulonglong = 0
        while True:
            if position >= self.limit:
                raise ValueError(f"byte {start}: a varint runs past the end")
            byte = self.view[position]
            position += 1
            if shift == 63 and byte > 1:
                raise ValueError(f"byte {start}: a varint of more than 64 bits")
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        self.position = position
        value: cython.longlong = raw >> 1
        return ~value if raw & 1 else value

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def varint(self) -> cython.longlong:
        start: cython.Py_ssize_t = self.position
        value: cython.longlong = self.varlong()
        if self.position - start > 5 or value < -0x80000000 or value > 0x7FFFFFFF:
            raise ValueError(f"byte {start}: a varint of more than 32 bits")
        return value

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def begin_record(self) -> cython.longlong:
        """Step over a record's length and attributes."""
        start: cython.Py_ssize_t = self.position
        self.limit = self.end
        length: cython.longlong = self.varint()
        if length < _RECORD_LENGTH_MIN or length > self.end - self.position:
            raise ValueError(f"byte {start}: a record of {length} bytes")
        self.limit = self.position + length
        self.position += 1
        return length

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def field(self) -> cython.longlong:
        """Step over a key or a value; its length, which is -1 for null."""
        start: cython.Py_ssize_t = self.position
        length: cython.longlong = self.varint()
        if length < -1 or length > self.limit - self.position:
            raise ValueError(f"byte {start}: a field of {length} bytes")
        if length > 0:
            self.position += length
        return length

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def header_name(self) -> cython.longlong:
        """Step over a header's name, which is never null; its length."""
        start: cython.Py_ssize_t = self.position
        length: cython.longlong = self.field()
        if length < 0:
            raise ValueError(f"byte {start}: a header without a name")
        return length

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def header_count(self) -> cython.longlong:
        start: cython.Py_ssize_t = self.position
        count: cython.longlong = self.varint()
        if count < 0:
            raise ValueError(f"byte {start}: {count} headers")
        return count

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def end_record(self) -> cython.longlong:
        left: cython.longlong = self.limit - self.position
        if left != 0:
            raise ValueError(f"byte {self.position}: {left} bytes left in a record")
        return left


def first_keyless(body: Buffer, count: int) -> int:
    """The index of the first record without a key, -1 if all have one.

    Raises ValueError unless `body` is exactly `count` whole records, numbered from 0 as a producer
    numbers them.
    """
    reader: _Reader = _Reader(body, 0)
    total: cython.longlong = count
    index: cython.longlong
    header: cython.longlong
    found: cython.longlong = -1
    for index in range(total):
        reader.begin_record()
        reader.varlong()
        start: cython.Py_ssize_t = reader.position
        delta: cython.longlong = reader.varint()
        if delta != index:
            raise ValueError(f"byte {start}: offset delta {delta} in record {index}")
        if reader.field() < 0 and found < 0:
            found = index
        reader.field()
        for header in range(reader.header_count()):  # noqa: B007 (a C loop needs its typed name)
            reader.header_name()
            reader.field()
        reader.end_record()
    check_end(reader.position, reader.end)
    return found


def check_end(position: int, end: int) -> None:
    """Refuse bytes behind the last record."""
    if position != end:
        raise ValueError(f"byte {position}: {end - position} bytes behind the last record")


Header = tuple[str, bytes | None]
Row = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]


def read_rows(
    body: bytes, position: int, count: int, base_offset: int, base_timestamp: int, stamped: bool
) -> tuple[list[Row], int]:
    """The `count` records from `position` on, and where they end.

    A row is offset, timestamp, key, value, headers. Where the batch is `stamped`, all its records
    have the base timestamp. A header's name that is not UTF-8 survives as surrogate escapes.
    """
    reader: _Reader = _Reader(body, position)
    total: cython.longlong = count
    first_offset: cython.longlong = base_offset
    first_timestamp: cython.longlong = base_timestamp
    index: cython.longlong
    rows = []
    for index in range(total):  # noqa: B007 (a C loop needs its typed name)
        reader.begin_record()
        start: cython.Py_ssize_t = reader.position
        delta: cython.longlong = reader.varlong()
        timestamp: cython.longlong = first_timestamp
        if not stamped:
            timestamp = _moved(first_timestamp, delta, start)
        start = reader.position
        delta = reader.varint()
        if delta < 0:
            raise ValueError(f"byte {start}: offset delta {delta}")
        offset: cython.longlong = _moved(first_offset, delta, start)
        key = _slice(body, reader)
        value = _slice(body, reader)
        headers = _read_headers(body, reader)
        reader.end_record()
        rows.append((offset, timestamp, key, value, headers))
    return rows, reader.position


@cython.cfunc
@cython.exceptval(-2, check=True)
def _moved(
    base: cython.longlong, delta: cython.longlong, position: cython.Py_ssize_t
) -> cython.longlong:
    if (delta > 0 and base > _INT64_MAX - delta) or (delta < 0 and base < ~_INT64_MAX - delta):
        raise ValueError(f"byte {position}: {base} and a delta of {delta} pass 64 bits")
    return base + delta


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
        length: cython.longlong = reader.header_name()
        name: bytes = body[reader.position - length : reader.position]
        headers.append((name.decode("utf-8", "surrogateescape"), _slice(body, reader)))
    return tuple(headers)


class KeyColumns(NamedTuple):
    """Where the parts of each record lie that a cleaner looks at; a column each, as int64.

    A length is -1 for null. Before `timestamp_starts` lies the byte of attributes, and with
    `offset_starts` begins what follows the timestamp.
    """

    # Of each batch the index of its first record; one more entry, how many records there are.
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
    """The columns of the records of batches that are not compressed, or not any more.

    `starts` says where each begins and the last one ends. Of those whose verdict is `ALL_GO` no
    record is read. ValueError where the records are not what their batch says.
    """
    reader: _Reader = _Reader(content, 0)
    batch_starts: cython.longlong[::1] = starts
    batch: cython.Py_ssize_t
    row_count: cython.Py_ssize_t = 0
    first_rows = array("q", bytes(8 * len(starts)))
    firsts: cython.longlong[::1] = first_rows
    total: cython.Py_ssize_t = len(starts) - 1
    for batch in range(total):
        if verdicts[batch] != _ALL_GO:
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
    header: cython.longlong
    total: cython.Py_ssize_t = len(batch_starts) - 1
    for batch in range(total):
        if first_rows[batch] == first_rows[batch + 1]:
            continue
        reader.begin_batch(batch_starts[batch], batch_starts[batch + 1])
        for row in range(first_rows[batch], first_rows[batch + 1]):
            record_starts[row] = reader.position
            reader.begin_record()
            timestamp_starts[row] = reader.position
            timestamp_deltas[row] = reader.varlong()
            offset_starts[row] = reader.position
            delta: cython.longlong = reader.varint()
            if delta < 0:
                raise ValueError(f"byte {offset_starts[row]}: offset delta {delta}")
            offsets[row] = _moved(reader.base_offset, delta, offset_starts[row])
            length: cython.longlong = reader.field()
            key_lengths[row] = length
            key_starts[row] = reader.position - max(length, 0)
            value_lengths[row] = reader.field()
            for header in range(reader.header_count()):  # noqa: B007 (a C loop needs its name)
                reader.header_name()
                reader.field()
            reader.end_record()
            record_ends[row] = reader.position
        check_end(reader.position, reader.end)
    return total
