"""Parses and answers ordinary OffsetCommit requests.

A request is ordinary if it has at least one topic, no retention time and no tagged fields. For any
other or malformed request `read` returns None; the declared codec then reads it and reports what is
wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

import cython

Buffer = bytes | bytearray | memoryview

# The versions that are read here, and from which one on they differ.
VERSION_MIN = 2
VERSION_MAX = 10
THROTTLED_SINCE = 3
NO_RETENTION_SINCE = 5
LEADER_EPOCHS_SINCE = 6
INSTANCES_SINCE = 7
FLEXIBLE_SINCE = 8
TOPIC_IDS_SINCE = 10

_API_KEY = cython.declare(cython.int, 8)
_UUID_BYTES = cython.declare(cython.Py_ssize_t, 16)

# Index of the partition, offset, leader epoch (-1: none) and metadata.
Partition = tuple[int, int, int, str | None]
# A topic by its name or, from version 10 on, by its id.
Topic = tuple[str | bytes, list[Partition]]
# Version, correlation id, client id, group, generation or epoch, member, instance, topics.
Request = tuple[int, int, str | None, str, int, str, str | None, list[Topic]]

_INT32 = Struct(">i")
_INT16 = Struct(">h")
_RESULT = Struct(">ih")


# `exceptval` is a result that is seldom the right one: only behind it is an error looked for.
@cython.final
@cython.cclass
class _Reader:
    """A position that moves over a frame. Once something does not fit, `is_ordinary` is false."""

    frame: bytes
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    is_flexible: cython.bint
    is_ordinary: cython.bint

    def __init__(self, frame: Buffer) -> None:
        # Of bytes a text is made without a copy in between.
        self.frame = bytes(frame)
        self.position = 0
        self.end = len(self.frame)
        self.is_flexible = False
        self.is_ordinary = True

    @cython.cfunc
    @cython.boundscheck(False)
    @cython.wraparound(False)
    @cython.exceptval(-2, check=True)
    def integer(self, size: cython.int) -> cython.longlong:
        """A signed integer of `size` bytes."""
        if self.end - self.position < size:
            self.is_ordinary = False
            return 0
        value: cython.longlong = self.frame[self.position]
        if value >= 0x80:
            value -= 0x100
        place: cython.int
        for place in range(1, size):
            value = value * 256 + self.frame[self.position + place]
        self.position += size
        return value

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def length(self, size: cython.int) -> cython.longlong:
        """The length of what follows, in `size` bytes unless it is flexible; -1 is null."""
        if not self.is_flexible:
            return self.integer(size)
        raw: cython.longlong = 0
        shift: cython.int = 0
        while shift < 35 and self.position < self.end:
            byte: cython.longlong = self.frame[self.position]
            self.position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                return raw - 1
            shift += 7
        self.is_ordinary = False
        return -1

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def skip(self, size: cython.longlong) -> cython.longlong:
        """Steps over so many bytes, and says where they began."""
        begin: cython.Py_ssize_t = self.position
        if size < 0 or size > self.end - begin:
            self.is_ordinary = False
            return begin
        self.position = begin + size
        return begin

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def no_tags(self) -> cython.longlong:
        """Steps over an empty section of tagged fields, where there is one."""
        if self.is_flexible and self.integer(1) != 0:
            self.is_ordinary = False
        return 0

    @cython.cfunc
    def text(self) -> str:
        """UnicodeDecodeError if it is none."""
        begin: cython.Py_ssize_t = self.skip(self.length(2))
        return self.frame[begin : self.position].decode("utf-8")

    @cython.cfunc
    def text_or_null(self) -> str | None:
        size: cython.longlong = self.length(2)
        if size == -1:
            return None
        begin: cython.Py_ssize_t = self.skip(size)
        return self.frame[begin : self.position].decode("utf-8")


def read(frame: Buffer) -> Request | None:
    """The request in a frame, if it is an ordinary OffsetCommit that ends with the frame."""
    reader: _Reader = _Reader(frame)
    if reader.integer(2) != _API_KEY:
        return None
    try:
        return _read(reader)
    except UnicodeDecodeError:
        return None


@cython.cfunc
def _read(reader: _Reader) -> Request | None:
    version: cython.longlong = reader.integer(2)
    if not reader.is_ordinary or version < VERSION_MIN or version > VERSION_MAX:
        return None
    correlation_id: cython.longlong = reader.integer(4)
    # The client id keeps its legacy form in every version.
    client_id: str | None = reader.text_or_null()
    reader.is_flexible = version >= FLEXIBLE_SINCE
    reader.no_tags()
    group_id: str = reader.text()
    generation: cython.longlong = reader.integer(4)
    member_id: str = reader.text()
    instance_id: str | None = None
    if version >= INSTANCES_SINCE:
        instance_id = reader.text_or_null()
    if version < NO_RETENTION_SINCE and reader.integer(8) != -1:
        return None
    topics = _read_topics(reader, version)
    reader.no_tags()
    if not topics or not reader.is_ordinary or reader.position != reader.end:
        return None
    return (
        version,
        correlation_id,
        client_id,
        group_id,
        generation,
        member_id,
        instance_id,
        topics,
    )


@cython.cfunc
def _read_topics(reader: _Reader, version: cython.longlong) -> list[Topic] | None:
    topics: list[Topic] = []
    left: cython.longlong = reader.length(4)
    while left > 0 and reader.is_ordinary:
        topic: str | bytes
        if version >= TOPIC_IDS_SINCE:
            begin: cython.Py_ssize_t = reader.skip(_UUID_BYTES)
            topic = reader.frame[begin : begin + _UUID_BYTES]
        else:
            topic = reader.text()
        partitions = _read_partitions(reader, version)
        reader.no_tags()
        if not partitions:
            return None
        topics.append((topic, partitions))
        left -= 1
    return topics


@cython.cfunc
def _read_partitions(reader: _Reader, version: cython.longlong) -> list[Partition]:
    partitions: list[Partition] = []
    left: cython.longlong = reader.length(4)
    while left > 0 and reader.is_ordinary:
        index: cython.longlong = reader.integer(4)
        offset: cython.longlong = reader.integer(8)
        leader_epoch: cython.longlong = -1
        if version >= LEADER_EPOCHS_SINCE:
            leader_epoch = reader.integer(4)
        metadata: str | None = reader.text_or_null()
        reader.no_tags()
        partitions.append((index, offset, leader_epoch, metadata))
        left -= 1
    return partitions


def answer(
    version: int,
    correlation_id: int,
    topics: list[Topic],
    codes: Sequence[int],
    throttle_time_ms: int,
) -> bytearray:
    """The frame with an error code for every partition, in the order of the request."""
    is_flexible: cython.bint = version >= FLEXIBLE_SINCE
    # Its length, which is not known yet.
    out = bytearray(4)
    out += _INT32.pack(correlation_id)
    if is_flexible:
        out.append(0)
    if version >= THROTTLED_SINCE:
        out += _INT32.pack(throttle_time_ms)
    _put_length(out, len(topics), is_flexible, _INT32)
    number: cython.Py_ssize_t = 0
    for topic, partitions in topics:
        if isinstance(topic, str):
            name: bytes = topic.encode("utf-8")
            _put_length(out, len(name), is_flexible, _INT16)
            out += name
        else:
            out += topic
        _put_length(out, len(partitions), is_flexible, _INT32)
        for partition in partitions:
            out += _RESULT.pack(partition[0], codes[number])
            if is_flexible:
                out.append(0)
            number += 1
        if is_flexible:
            out.append(0)
    if is_flexible:
        out.append(0)
    out[:4] = _INT32.pack(len(out) - 4)
    return out


@cython.cfunc
def _put_length(
    out: bytearray, length: cython.longlong, is_flexible: cython.bint, form: Struct
) -> None:
    if not is_flexible:
        out += form.pack(length)
        return
    raw: cython.longlong = length + 1
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
