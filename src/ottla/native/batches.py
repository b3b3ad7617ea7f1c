"""Finds the batches in a chunk of a log, and copies the records that compaction retains.

First `find_batches` finds the whole batches of a chunk, then `scan.key_columns` reads their
records, `keymap.KeyMap` marks the records to retain, and `copy_batches` copies these.
"""

from __future__ import annotations

from array import array
from collections.abc import Set
from struct import Struct
from typing import Any, NamedTuple

import cython
from crc32c import crc32c

from ottla.native.build import copy_records
from ottla.native.keymap import BY_KEY, BY_KEY_WITHOUT_TOMBSTONES, DISCARDED, RETAINED_UNTIL_HORIZON

Buffer = bytes | bytearray | memoryview

_BY_KEY = cython.declare(cython.uchar, BY_KEY)
_BY_KEY_WITHOUT_TOMBSTONES = cython.declare(cython.uchar, BY_KEY_WITHOUT_TOMBSTONES)
_DISCARDED = cython.declare(cython.uchar, DISCARDED)
_RETAINED_UNTIL_HORIZON = cython.declare(cython.uchar, RETAINED_UNTIL_HORIZON)
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
_UNCOUNTED_BYTES = cython.declare(cython.Py_ssize_t, 12)
_CRC_START = cython.declare(cython.Py_ssize_t, 21)
_MAGIC = cython.declare(cython.int, 2)
_CODEC_MASK = cython.declare(cython.int, 0x07)
_CODEC_MAX = cython.declare(cython.int, 4)
_LOG_APPEND_TIME = cython.declare(cython.int, 0x08)
_TRANSACTIONAL_OR_CONTROL = cython.declare(cython.int, 0x30)
_DELETE_HORIZON = cython.declare(cython.int, 0x40)

_INT64_MIN = -0x8000000000000000
_INT64_MAX = 0x7FFFFFFFFFFFFFFF
# All header fields from the length on; the base offset before them is kept.
_FIELDS = Struct(">iibIhiqqqhii")
_FIELDS_AT = 8
_CRC = Struct(">I")
_CRC_AT = 17


class Batches(NamedTuple):
    """The result of `find_batches`."""

    # The start of each batch, and one more entry: the end of the last.
    starts: array[int]
    verdicts: bytearray
    # Indexes of transactional and control batches, whose verdicts do not depend on keys alone.
    transactional_or_control: list[int]
    next_offset: int


@cython.final
@cython.cclass
class _Headers:
    """Reads batch headers. The caller has checked that the header is complete."""

    view: cython.const[cython.uchar][::1]

    def __init__(self, content: Buffer) -> None:
        self.view = content

    # `exceptval` is a rare result: the caller checks for an exception only if it is returned.
    @cython.cfunc
    @cython.boundscheck(False)
    @cython.wraparound(False)
    @cython.exceptval(-2, check=True)
    def at(self, position: cython.Py_ssize_t, size: cython.int) -> cython.longlong:
        """A signed integer of `size` bytes."""
        value: cython.longlong = self.view[position]
        if value >= 0x80:
            value -= 0x100
        place: cython.int
        for place in range(1, size):
            value = value * 256 + self.view[position + place]
        return value

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def last_offset(self, start: cython.Py_ssize_t) -> cython.longlong:
        return self.at(start, 8) + self.at(start + 23, 4)

    @cython.cfunc
    def fault(self, start: cython.Py_ssize_t, offset_min: cython.longlong) -> str | None:
        """Why the bytes at `start` are not a batch; None if they may be one."""
        base_offset: cython.longlong = self.at(start, 8)
        delta: cython.longlong = self.at(start + 23, 4)
        if self.at(start + 16, 1) != _MAGIC:
            return f"magic {self.at(start + 16, 1)} where a batch should begin"
        if base_offset < offset_min:
            return f"offset {base_offset} where {offset_min} is the first that can be"
        if (
            delta < 0
            or base_offset > 0x7FFFFFFFFFFFFFFE - delta
            or self.at(start + 57, 4) < 0
            or self.at(start + 8, 4) < _HEADER_BYTES - _UNCOUNTED_BYTES
            or self.at(start + 21, 2) & _CODEC_MASK > _CODEC_MAX
        ):
            return "an impossible header"
        return None


def find_batches(content: Buffer, offset_min: int, now_ms: int) -> Batches:
    """The whole batches at the start of `content`, up to the first incomplete one.

    A compressed batch is returned alone, and ends a run of uncompressed ones. There is no batch if
    the first one is incomplete. ValueError if `content` does not begin with a batch, or if its
    checksum is wrong. All verdicts are by key, without tombstones if the delete horizon has passed.
    """
    headers: _Headers = _Headers(content)
    view = memoryview(content)
    end: cython.Py_ssize_t = len(content)
    start: cython.Py_ssize_t = 0
    next_offset: cython.longlong = offset_min
    now: cython.longlong = now_ms
    starts = [0]
    verdicts = bytearray()
    transactional_or_control = []
    while end - start >= _HEADER_BYTES:
        fault = headers.fault(start, next_offset)
        size: cython.Py_ssize_t = headers.at(start + 8, 4) + _UNCOUNTED_BYTES
        if fault is None and size > end - start:
            break
        attributes: cython.longlong = headers.at(start + 21, 2)
        is_compressed: cython.bint = attributes & _CODEC_MASK != 0
        if is_compressed and verdicts:
            break
        if fault is None:
            crc: cython.longlong = crc32c(view[start + _CRC_START : start + size])
            if crc != headers.at(start + 17, 4) & 0xFFFFFFFF:
                fault = "the batch's checksum is wrong"
        if fault is not None:
            if verdicts:
                break  # the batches before it are valid; the next search begins here
            raise ValueError(fault)
        if attributes & _TRANSACTIONAL_OR_CONTROL:
            transactional_or_control.append(len(verdicts))
        is_over: cython.bint = attributes & _DELETE_HORIZON and headers.at(start + 27, 8) <= now
        verdicts.append(_BY_KEY_WITHOUT_TOMBSTONES if is_over else _BY_KEY)
        next_offset = headers.last_offset(start) + 1
        start += size
        starts.append(start)
        if is_compressed:
            break
    return Batches(array("q", starts), verdicts, transactional_or_control, next_offset)


class RetainedBatches(NamedTuple):
    """The batches that compaction retains, and the index data of each."""

    content: bytearray
    sizes: list[int]
    last_offsets: list[int]
    max_timestamps_ms: list[int]
    records_dropped: int
    # The number of batches that were changed.
    changed: int


def copy_batches(
    content: Buffer,
    starts: array[int],
    columns: Any,
    marks: bytearray,
    kept: Set[int],
    delete_horizon_ms: int,
) -> RetainedBatches:
    """Copies batches without their discarded records, and drops batches that become empty.

    `columns` come from `scan.key_columns` and `marks` from `KeyMap.mark`. An empty batch whose last
    offset is in `kept` is retained with its offset range. The delete horizon is set in batches that
    have records to retain until then and have no horizon yet.
    """
    copier: _Copier = _Copier(content, columns, marks, delete_horizon_ms)
    batch_starts: cython.longlong[::1] = starts
    first_rows: cython.longlong[::1] = columns.first_rows
    dropped: cython.longlong = 0
    index: cython.Py_ssize_t
    total: cython.Py_ssize_t = len(starts) - 1
    for index in range(total):
        start: cython.Py_ssize_t = batch_starts[index]
        first: cython.Py_ssize_t = first_rows[index]
        last: cython.Py_ssize_t = first_rows[index + 1]
        count: cython.longlong = copier.headers.at(start + 57, 4)
        # If its records were not read, all of them are discarded.
        discarded: cython.longlong = marks.count(_DISCARDED, first, last) if last > first else count
        dropped += discarded
        if discarded < count:
            copier.put(start, batch_starts[index + 1], first, last, discarded == 0)
        elif copier.headers.last_offset(start) in kept:
            copier.put_empty(start)
    return RetainedBatches(
        copier.copied,
        copier.sizes,
        copier.last_offsets,
        copier.max_timestamps_ms,
        dropped,
        copier.changed,
    )


@cython.final
@cython.cclass
class _Copier:
    """Writes batches one after another."""

    headers: _Headers
    source: memoryview
    columns: Any
    marks: bytearray
    horizon_ms: int
    copied: bytearray
    sizes: list[int]
    last_offsets: list[int]
    max_timestamps_ms: list[int]
    changed: cython.longlong

    def __init__(
        self, content: Buffer, columns: Any, marks: bytearray, delete_horizon_ms: int
    ) -> None:
        self.headers = _Headers(content)
        self.source = memoryview(content)
        self.columns = columns
        self.marks = marks
        self.horizon_ms = delete_horizon_ms
        self.copied = bytearray()
        self.sizes = []
        self.last_offsets = []
        self.max_timestamps_ms = []
        self.changed = 0

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def put(
        self,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
        is_whole: cython.bint,
    ) -> cython.longlong:
        """Copies a batch with retained records; unchanged, if possible."""
        attributes: cython.longlong = self.headers.at(start + 21, 2)
        needs_horizon: cython.bint = (
            not attributes & _DELETE_HORIZON
            and self.marks.find(_RETAINED_UNTIL_HORIZON, first, last) >= 0
        )
        if is_whole and not needs_horizon:
            self.copied += self.source[start:end]
            return self.note(start, end - start, self.headers.at(start + 35, 8))
        # A Python integer cannot overflow.
        base_ms: int = self.headers.at(start + 27, 8)
        shift_ms: int = base_ms - self.horizon_ms if needs_horizon else 0
        records = copy_records(self.source, self.columns, self.marks, first, last, shift_ms)
        max_ms: int = self.headers.at(start + 35, 8)
        if not attributes & _LOG_APPEND_TIME:
            max_ms = base_ms + records.max_timestamp_delta
            if not _INT64_MIN <= max_ms <= _INT64_MAX:
                raise ValueError(f"byte {start}: a record's timestamp exceeds 64 bits")
        if needs_horizon:
            attributes |= _DELETE_HORIZON
            base_ms = self.horizon_ms
        return self.put_changed(start, records.body, attributes, base_ms, max_ms, records.row_count)

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def put_empty(self, start: cython.Py_ssize_t) -> cython.longlong:
        """Writes a batch without records that keeps its offset range and producer fields."""
        attributes: cython.longlong = self.headers.at(start + 21, 2)
        attributes &= ~_CODEC_MASK & ~_DELETE_HORIZON
        return self.put_changed(start, b"", attributes, -1, self.headers.at(start + 35, 8), 0)

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def put_changed(
        self,
        start: cython.Py_ssize_t,
        body: Buffer,
        attributes: cython.longlong,
        base_timestamp_ms: int,
        max_timestamp_ms: int,
        count: cython.longlong,
    ) -> cython.longlong:
        batch = bytearray(self.source[start : start + _HEADER_BYTES])
        batch += body
        fields = list(_FIELDS.unpack_from(batch, _FIELDS_AT))
        fields[0] = len(batch) - _UNCOUNTED_BYTES
        fields[4] = attributes
        fields[6] = base_timestamp_ms
        fields[7] = max_timestamp_ms
        fields[11] = count
        _FIELDS.pack_into(batch, _FIELDS_AT, *fields)
        _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_START:]))
        self.copied += batch
        self.changed += 1
        return self.note(start, len(batch), max_timestamp_ms)

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def note(
        self, start: cython.Py_ssize_t, size: cython.Py_ssize_t, max_timestamp_ms: int
    ) -> cython.longlong:
        self.sizes.append(size)
        self.last_offsets.append(self.headers.last_offset(start))
        self.max_timestamps_ms.append(max_timestamp_ms)
        return size
