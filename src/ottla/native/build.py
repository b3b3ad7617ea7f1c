"""Encodes the records of a batch: rows in, bytes out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import cython

Buffer = bytes | bytearray | memoryview
Header = tuple[str, bytes | None]
Row = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]

_INT32_MAX = 0x7FFFFFFF
_INT64_MIN = -0x8000000000000000
_INT64_MAX = 0x7FFFFFFFFFFFFFFF


class EncodedRecords(NamedTuple):
    """The bytes of some records, and the header fields of their batch."""

    body: bytearray
    row_count: int
    last_offset_delta: int
    max_timestamp: int


def encode_rows(rows: Iterable[Row], base_offset: int, base_timestamp: int) -> EncodedRecords:
    """Encodes rows of offset, timestamp, key, value, headers, in offset order.

    Without rows, the last offset delta and the largest timestamp are -1. ValueError if a value does
    not fit the format: an offset delta of over 31 bits, a timestamp delta of over 63.
    """
    body = bytearray()
    count: cython.Py_ssize_t = 0
    last_offset_delta: cython.longlong = -1
    max_timestamp = -1
    for subclassed in rows:
        # Indexing a plain tuple costs a fraction of indexing a named one.
        row: tuple[Any, ...] = tuple(subclassed)
        timestamp = row[1]
        offset_delta = row[0] - base_offset
        timestamp_delta = timestamp - base_timestamp
        if not last_offset_delta < offset_delta <= _INT32_MAX:
            raise ValueError(f"row {count}: offset delta {offset_delta} after {last_offset_delta}")
        if not _INT64_MIN <= timestamp_delta <= _INT64_MAX:
            raise ValueError(f"row {count}: timestamp delta {timestamp_delta}")
        _put_record(body, timestamp_delta, offset_delta, row[2], row[3], row[4])
        last_offset_delta = offset_delta
        max_timestamp = timestamp if count == 0 else max(max_timestamp, timestamp)
        count += 1
    return EncodedRecords(body, count, last_offset_delta, max_timestamp)


# `exceptval` is a rare result: the caller checks for an exception only if it is returned.
@cython.cfunc
@cython.exceptval(-2, check=True)
def _put_record(
    body: bytearray,
    timestamp_delta: cython.longlong,
    offset_delta: cython.longlong,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[Header, ...],
) -> cython.longlong:
    encoded_headers: bytes = _encode_headers(headers) if headers else b"\x00"
    length: cython.longlong = (
        1
        + _varint_size(timestamp_delta)
        + _varint_size(offset_delta)
        + _field_size(key)
        + _field_size(value)
        + len(encoded_headers)
    )
    _put_varint(body, length)
    body.append(0)
    _put_varint(body, timestamp_delta)
    _put_varint(body, offset_delta)
    _put_field(body, key)
    _put_field(body, value)
    body += encoded_headers
    return length


@cython.cfunc
def _encode_headers(headers: tuple[Header, ...]) -> bytes:
    encoded = bytearray()
    _put_varint(encoded, len(headers))
    for name, value in headers:
        _put_field(encoded, name.encode("utf-8", "surrogateescape"))
        _put_field(encoded, value)
    return bytes(encoded)


@cython.cfunc
@cython.exceptval(-2, check=True)
def _put_field(body: bytearray, field: bytes | None) -> cython.longlong:
    if field is None:
        body.append(1)  # the varint of -1
        return -1
    length: cython.longlong = len(field)
    _put_varint(body, length)
    body += field
    return length


@cython.cfunc
@cython.exceptval(-2, check=True)
def _field_size(field: bytes | None) -> cython.longlong:
    if field is None:
        return 1
    length: cython.longlong = len(field)
    return _varint_size(length) + length


@cython.cfunc
@cython.exceptval(check=False)
def _zigzag(value: cython.longlong) -> cython.ulonglong:
    # Inverted before the shift: doubling a large negative number would overflow.
    magnitude: cython.ulonglong = ~value if value < 0 else value
    return magnitude << 1 | (1 if value < 0 else 0)


@cython.cfunc
@cython.exceptval(check=False)
def _varint_size(value: cython.longlong) -> cython.longlong:
    rest: cython.ulonglong = _zigzag(value) >> 7
    size: cython.longlong = 1
    while rest != 0:
        size += 1
        rest >>= 7
    return size


@cython.cfunc
@cython.exceptval(-2, check=True)
def _put_varint(body: bytearray, value: cython.longlong) -> cython.longlong:
    rest: cython.ulonglong = _zigzag(value)
    while rest > 0x7F:
        body.append(rest & 0x7F | 0x80)
        rest >>= 7
    body.append(rest)
    return value


class CopiedRecords(NamedTuple):
    """Some records of a batch, unchanged or with shifted timestamp deltas."""

    body: bytearray
    row_count: int
    # Before the shift; -1 without records.
    max_timestamp_delta: int


def copy_records(
    content: Buffer, columns: Any, marks: bytearray, first: int, last: int, timestamp_shift: int
) -> CopiedRecords:
    """Copies the records of one batch, `first` to before `last`, whose mark is not 0.

    `columns` come from `scan.key_columns`. The shift is added to each timestamp delta; ValueError
    if the sum does not fit the format.
    """
    copied = bytearray()
    if first == last:
        return CopiedRecords(copied, 0, -1)
    source = memoryview(content)
    retained: cython.const[cython.uchar][::1] = marks
    starts: cython.longlong[::1] = columns.record_starts
    ends: cython.longlong[::1] = columns.record_ends
    deltas: cython.longlong[::1] = columns.timestamp_deltas
    largest: cython.longlong = -1
    count: cython.Py_ssize_t = 0
    run_start: cython.Py_ssize_t = -1
    begin: cython.Py_ssize_t = first
    end: cython.Py_ssize_t = last
    index: cython.Py_ssize_t
    for index in range(begin, end):
        if retained[index] == 0:
            if run_start >= 0:
                copied += source[starts[run_start] : starts[index]]
                run_start = -1
            continue
        if count == 0 or deltas[index] > largest:
            largest = deltas[index]
        count += 1
        if timestamp_shift:
            _put_shifted(copied, source, columns, index, timestamp_shift)
        elif run_start < 0:
            run_start = index
    if run_start >= 0:
        copied += source[starts[run_start] : ends[end - 1]]
    return CopiedRecords(copied, count, largest)


@cython.cfunc
@cython.exceptval(-2, check=True)
def _put_shifted(
    copied: bytearray, source: memoryview, columns: Any, index: cython.Py_ssize_t, shift: Any
) -> cython.longlong:
    # A Python integer cannot overflow.
    delta = columns.timestamp_deltas[index] + shift
    if not _INT64_MIN <= delta <= _INT64_MAX:
        raise ValueError(f"row {index}: timestamp delta {delta}")
    rest = source[columns.offset_starts[index] : columns.record_ends[index]]
    length: cython.longlong = 1 + _varint_size(delta) + len(rest)
    _put_varint(copied, length)
    copied.append(source[columns.timestamp_starts[index] - 1])
    _put_varint(copied, delta)
    copied += rest
    return length
