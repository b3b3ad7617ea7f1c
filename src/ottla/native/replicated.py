"""Checks the batches of a leader's answer to a replica fetch, and notes where each of them lies.

An ordinary batch has magic 2, a right checksum, offsets that follow the log, the leader epoch of
the batch before it, and no transaction marker. `read` stops at the first batch that is none. The
caller's checks in Python then decide about the rest, and say what is wrong with it.
tests/property/test_replicated_twins.py compares the two.
"""

from __future__ import annotations

import cython
from crc32c import crc32c

from ottla.native.produce import Fields

_MAGIC = cython.declare(cython.longlong, 2)
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
# The length field counts the bytes behind itself.
_UNCOUNTED_BYTES = cython.declare(cython.longlong, 12)
# The checksum covers everything from the attributes on.
_CRC_START = cython.declare(cython.Py_ssize_t, 21)
_CONTROL = cython.declare(cython.longlong, 0x20)
# As `storage.log.retention`: the widest gap that a segment can index.
_OFFSET_DELTA_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)

# The size of all batches; of each its position in the segment, first offset, last offset and
# largest timestamp; the number of all records; the headers of those with a producer.
Run = tuple[int, list[int], list[int], list[int], list[int], int, list[Fields]]


def read(content: memoryview, position: int, end_offset: int, leader_epoch: int) -> Run:
    """The ordinary batches at the front of `content`.

    They are to be written at `position` of a segment, behind a log that ends at `end_offset` and
    whose last batch has this leader epoch.
    """
    view: cython.const[cython.uchar][::1] = content
    size: cython.Py_ssize_t = len(content)
    base_position: cython.longlong = position
    log_end: cython.longlong = end_offset
    epoch: cython.longlong = leader_epoch
    begin: cython.Py_ssize_t = 0
    record_count: cython.longlong = 0
    positions: list[int] = []
    first_offsets: list[int] = []
    last_offsets: list[int] = []
    timestamps: list[int] = []
    of_producers: list[Fields] = []
    while size - begin >= _HEADER_BYTES:
        length: cython.longlong = _integer(view, begin + 8, 4)
        batch_bytes: cython.longlong = length + _UNCOUNTED_BYTES
        if batch_bytes < _HEADER_BYTES or batch_bytes > size - begin:
            break
        if (
            _integer(view, begin + 16, 1) != _MAGIC
            or _integer(view, begin + 12, 4) != epoch
            or _integer(view, begin + 21, 2) & _CONTROL
        ):
            break
        base_offset: cython.longlong = _integer(view, begin, 8)
        last_offset_delta: cython.longlong = _integer(view, begin + 23, 4)
        if base_offset < log_end or last_offset_delta < 0:
            break
        if base_offset - log_end > _OFFSET_DELTA_MAX - last_offset_delta:
            break
        end: cython.Py_ssize_t = begin + batch_bytes
        checksum: cython.longlong = crc32c(content[begin + _CRC_START : end])
        if checksum != _integer(view, begin + 17, 4) & 0xFFFFFFFF:
            break
        positions.append(base_position + begin)
        first_offsets.append(base_offset)
        last_offsets.append(base_offset + last_offset_delta)
        timestamps.append(_integer(view, begin + 35, 8))
        record_count += _integer(view, begin + 57, 4)
        if _integer(view, begin + 43, 8) >= 0:
            of_producers.append(_fields(view, begin))
        log_end = base_offset + last_offset_delta + 1
        begin = end
    return begin, positions, first_offsets, last_offsets, timestamps, record_count, of_producers


# The caller has checked that there are enough bytes.
@cython.cfunc
@cython.boundscheck(False)
@cython.wraparound(False)
@cython.exceptval(-2, check=True)
def _integer(
    view: cython.const[cython.uchar][::1], position: cython.Py_ssize_t, size: cython.int
) -> cython.longlong:
    """A signed integer of `size` bytes."""
    value: cython.longlong = view[position]
    if value >= 0x80:
        value -= 0x100
    place: cython.int
    for place in range(1, size):
        value = value * 256 + view[position + place]
    return value


@cython.cfunc
def _fields(view: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t) -> Fields:
    """The header of a batch."""
    return (
        _integer(view, begin, 8),
        _integer(view, begin + 8, 4),
        _integer(view, begin + 12, 4),
        _integer(view, begin + 16, 1),
        _integer(view, begin + 17, 4) & 0xFFFFFFFF,
        _integer(view, begin + 21, 2),
        _integer(view, begin + 23, 4),
        _integer(view, begin + 27, 8),
        _integer(view, begin + 35, 8),
        _integer(view, begin + 43, 8),
        _integer(view, begin + 51, 2),
        _integer(view, begin + 53, 4),
        _integer(view, begin + 57, 4),
    )
