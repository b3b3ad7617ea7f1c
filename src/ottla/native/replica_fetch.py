"""Writes and reads ordinary replica fetches and their answers, for followers and leaders.

A fetch is ordinary if it forgets no partition and has no tagged fields but the replica's state. An
answer is ordinary if no partition has an error or diverges. Of any other frame the readers return
None; the declared codec then reads it, or says why it cannot.
tests/property/test_native_replica_fetch.py compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class

import cython

Buffer = bytes | bytearray | memoryview

# The only version that is read and written here.
VERSION = 18

# Index, leader epoch, fetch offset, epoch of the last batch, log start offset, the most bytes.
Position = tuple[int, int, int, int, int, int]
# A topic id, and the partitions whose positions are new.
Topic = tuple[bytes, list[Position]]
# A broker's id and epoch.
Replica = tuple[int, int]
# The most milliseconds to wait, the least and the most bytes.
Limits = tuple[int, int, int]
# Id and epoch.
Session = tuple[int, int]
Request = tuple[int, Replica, Limits, Session, list[Topic]]

# Index, high watermark, log start offset, size of the records.
Result = tuple[int, int, int, int]
TopicResult = tuple[bytes, list[Result]]
# Topic id, index, high watermark, log start offset, begin and end of the records in the frame.
Replicated = tuple[bytes, int, int, int, int, int]
# Session id and partitions.
Answer = tuple[int, list[Replicated]]

_API_KEY = 1
_UUID_BYTES = cython.declare(cython.Py_ssize_t, 16)
# A request that names more partitions is left to the codec, which has a limit for it.
_PARTITIONS_MAX = cython.declare(cython.longlong, 10_000)
# A varint of more bytes than this is none of a length.
_VARINT_BITS_MAX = cython.declare(cython.int, 35)

_LENGTH = Struct(">i")
# API key, version, correlation id, size of the client id.
_REQUEST_HEADER = Struct(">hhih")
# No tags; wait, least bytes, most bytes, isolation level, session id, session epoch.
_LIMITS = Struct(">Biiibii")
# A position without tags.
_POSITION = Struct(">iiqiqiB")
# No forgotten topics, no rack, one tag: the replica's state.
_REPLICA_PREFIX = bytes((1, 1, 1, 1, 13))
# A broker's id and epoch without tags.
_REPLICA = Struct(">iqB")
# Correlation id, no tags, throttle time, error code, session id.
_RESPONSE_HEADER = Struct(">iBihi")
# Index, error code, high watermark, last stable offset, log start offset, no list of aborted
# transactions, preferred replica.
_RESULT = Struct(">ihqqqBi")
_NO_REPLICA = -1


def write_request(
    correlation_id: int,
    client_id: bytes,
    replica: Replica,
    limits: Limits,
    session: Session,
    topics: Sequence[Topic],
) -> bytearray:
    """The frame of a replica fetch."""
    out = bytearray(_LENGTH.size)
    out += _REQUEST_HEADER.pack(_API_KEY, VERSION, correlation_id, len(client_id))
    out += client_id
    wait_ms, bytes_min, bytes_max = limits
    session_id, session_epoch = session
    out += _LIMITS.pack(0, wait_ms, bytes_min, bytes_max, 0, session_id, session_epoch)
    _put_length(out, len(topics))
    for topic_id, positions in topics:
        out += topic_id
        _put_length(out, len(positions))
        for index, leader_epoch, offset, last_epoch, start_offset, partition_bytes in positions:
            out += _POSITION.pack(
                index, leader_epoch, offset, last_epoch, start_offset, partition_bytes, 0
            )
        out.append(0)
    replica_id, replica_epoch = replica
    out += _REPLICA_PREFIX
    out += _REPLICA.pack(replica_id, replica_epoch, 0)
    out[: _LENGTH.size] = _LENGTH.pack(len(out) - _LENGTH.size)
    return out


def read_request(frame: memoryview) -> Request | None:
    """Correlation id, replica, limits, session and topics of an ordinary replica fetch."""
    try:
        return _read_request(frame)
    except (StructError, IndexError, UnicodeDecodeError):
        return None


@cython.cfunc
def _read_request(frame: memoryview) -> Request | None:
    view: cython.const[cython.uchar][::1] = frame
    end: cython.Py_ssize_t = len(frame)
    api_key, version, correlation_id, name_bytes = _REQUEST_HEADER.unpack_from(frame)
    if api_key != _API_KEY or version != VERSION or name_bytes < 0:
        return None
    at: cython.Py_ssize_t = _REQUEST_HEADER.size + name_bytes
    # The codec refuses a client id that is no text.
    bytes(frame[_REQUEST_HEADER.size : at]).decode("utf-8")
    no_tags, wait_ms, bytes_min, bytes_max, isolation, session_id, session_epoch = (
        _LIMITS.unpack_from(frame, at)
    )
    at += _LIMITS.size
    if no_tags or isolation:
        return None
    topics: list[Topic] = []
    room: cython.longlong = _PARTITIONS_MAX
    left: cython.longlong = _length(view, at)
    at += _length_bytes(left)
    room -= left
    while left > 0 and room >= 0:
        topic_id: bytes = bytes(frame[at : at + _UUID_BYTES])
        at += _UUID_BYTES
        positions: list[Position] = []
        partitions_left: cython.longlong = _length(view, at)
        at += _length_bytes(partitions_left)
        room -= partitions_left
        if room < 0 or partitions_left < 0:
            return None
        while partitions_left > 0:
            index, leader_epoch, offset, last_epoch, start_offset, partition_bytes, no_tags = (
                _POSITION.unpack_from(frame, at)
            )
            if no_tags:
                return None
            at += _POSITION.size
            positions.append(
                (index, leader_epoch, offset, last_epoch, start_offset, partition_bytes)
            )
            partitions_left -= 1
        topics.append((topic_id, positions))
        if view[at]:
            return None
        at += 1
        left -= 1
    if left or bytes(frame[at : at + len(_REPLICA_PREFIX)]) != _REPLICA_PREFIX:
        return None
    at += len(_REPLICA_PREFIX)
    replica_id, replica_epoch, no_tags = _REPLICA.unpack_from(frame, at)
    if no_tags or at + _REPLICA.size != end:
        return None
    return (
        correlation_id,
        (replica_id, replica_epoch),
        (wait_ms, bytes_min, bytes_max),
        (session_id, session_epoch),
        topics,
    )


def write_answer(
    correlation_id: int, session_id: int, topics: list[TopicResult]
) -> list[bytearray]:
    """The frame of an answer without the records: the parts before, between and behind them.

    Records follow each part but the last one, for every partition that has some.
    """
    out = bytearray(_LENGTH.size)
    parts: list[bytearray] = [out]
    records_bytes: cython.longlong = 0
    out += _RESPONSE_HEADER.pack(correlation_id, 0, 0, 0, session_id)
    _put_length(out, len(topics))
    for topic_id, results in topics:
        out += topic_id
        _put_length(out, len(results))
        for index, high_watermark, start_offset, size in results:
            out += _RESULT.pack(
                index, 0, high_watermark, high_watermark, start_offset, 0, _NO_REPLICA
            )
            _put_length(out, size)
            if size:
                records_bytes += size
                out = bytearray()
                parts.append(out)
            out.append(0)
        out.append(0)
    out.append(0)
    size_bytes: cython.longlong = records_bytes - _LENGTH.size
    for part in parts:
        size_bytes += len(part)
    parts[0][: _LENGTH.size] = _LENGTH.pack(size_bytes)
    return parts


def read_answer(frame: memoryview) -> Answer | None:
    """The session and the partitions of an ordinary answer, without its length."""
    try:
        return _read_answer(frame)
    except (StructError, IndexError):
        return None


@cython.cfunc
def _read_answer(frame: memoryview) -> Answer | None:
    view: cython.const[cython.uchar][::1] = frame
    end: cython.Py_ssize_t = len(frame)
    _, no_tags, throttle_ms, error_code, session_id = _RESPONSE_HEADER.unpack_from(frame)
    if no_tags or throttle_ms or error_code:
        return None
    at: cython.Py_ssize_t = _RESPONSE_HEADER.size
    partitions: list[Replicated] = []
    left: cython.longlong = _length(view, at)
    at += _length_bytes(left)
    while left > 0:
        topic_id: bytes = bytes(frame[at : at + _UUID_BYTES])
        at += _UUID_BYTES
        partitions_left: cython.longlong = _length(view, at)
        at += _length_bytes(partitions_left)
        if partitions_left < 0:
            return None
        while partitions_left > 0:
            index, error_code, high_watermark, _, start_offset, aborted, _ = _RESULT.unpack_from(
                frame, at
            )
            if error_code or aborted:
                return None
            at += _RESULT.size
            size: cython.longlong = _length(view, at)
            at += _length_bytes(size)
            if size < 0 or size > end - at:
                return None
            begin: cython.Py_ssize_t = at
            at += size
            if view[at]:
                return None
            at += 1
            partitions.append((topic_id, index, high_watermark, start_offset, begin, at - 1))
            partitions_left -= 1
        if view[at]:
            return None
        at += 1
        left -= 1
    if left or view[at] or at + 1 != end:
        return None
    return session_id, partitions


@cython.cfunc
@cython.exceptval(-2, check=True)
def _length(view: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> cython.longlong:
    """A length in its shortest form: one less than the varint. -1 for null, and for other forms."""
    raw: cython.longlong = 0
    shift: cython.int = 0
    byte: cython.longlong = view[position]
    while byte >= 0x80 and shift < _VARINT_BITS_MAX:
        raw |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        byte = view[position]
    if shift >= _VARINT_BITS_MAX or (shift and not byte):
        return -1
    return (raw | byte << shift) - 1


@cython.cfunc
@cython.exceptval(-2, check=True)
def _length_bytes(length: cython.longlong) -> cython.longlong:
    """The bytes of a length in its shortest form."""
    raw: cython.longlong = (length + 1) >> 7
    count: cython.longlong = 1
    while raw:
        raw >>= 7
        count += 1
    return count


@cython.cfunc
def _put_length(out: bytearray, length: cython.longlong) -> None:
    raw: cython.longlong = length + 1
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
