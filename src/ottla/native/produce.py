"""Reads and answers ordinary produce requests: nearly all of them.

An ordinary request has no tagged fields, and room for a batch header in every partition. `read`
returns None for any other frame; the declared codec then reads the frame, or says why it cannot.
`native.admission` checks the batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython

Buffer = bytes | bytearray | memoryview

# The versions that are read here, and from which one on they differ.
VERSION_MIN = 3
VERSION_MAX = 13
START_OFFSETS_SINCE = 5
RECORD_ERRORS_SINCE = 8
FLEXIBLE_SINCE = 9
TOPIC_IDS_SINCE = 13

_API_KEY = cython.declare(cython.int, 0)
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
_UUID_BYTES = cython.declare(cython.Py_ssize_t, 16)
# A request with more batches is left to the codec, which has a limit for it.
_BATCHES_MAX = cython.declare(cython.longlong, 10_000)

# The fields of a batch's header, in their order.
Fields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
# Index of the partition, begin and end of its batch in the frame, the batch's header.
Batch = tuple[int, int, int, Fields]
# A topic by its name or, from version 13 on, by its id.
Topic = tuple[str | bytes, list[Batch]]
# Version, correlation id, client id, acks, timeout in milliseconds, topics, transactional id.
Request = tuple[int, int, str | None, int, int, list[Topic], str | None]
# Of one batch, its first offset and the first that its log still has.
Outcome = tuple[int, int]
# What is written, and of each batch its position, first offset, last offset and largest timestamp.
Joined = tuple[bytearray, list[int], list[int], list[int], list[int]]


# `exceptval` is a result that is seldom the right one: only behind it is an error looked for.
@cython.final
@cython.cclass
class _Reader:
    """A position that moves over a frame. Once something does not fit, `is_ordinary` is false."""

    view: cython.const[cython.uchar][::1]
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    is_flexible: cython.bint
    is_ordinary: cython.bint

    def __init__(self, frame: Buffer) -> None:
        self.view = frame
        self.position = 0
        self.end = len(frame)
        self.is_flexible = False
        self.is_ordinary = True

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def integer(self, size: cython.int) -> cython.longlong:
        """A signed integer of `size` bytes."""
        if self.end - self.position < size:
            self.is_ordinary = False
            return 0
        value: cython.longlong = self.at(self.position, size)
        self.position += size
        return value

    # The caller has checked that enough bytes are left.
    @cython.cfunc
    @cython.boundscheck(False)
    @cython.wraparound(False)
    @cython.exceptval(-2, check=True)
    def at(self, position: cython.Py_ssize_t, size: cython.int) -> cython.longlong:
        value: cython.longlong = self.view[position]
        if value >= 0x80:
            value -= 0x100
        place: cython.int
        for place in range(1, size):
            value = value * 256 + self.view[position + place]
        return value

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def length(self, size: cython.int) -> cython.longlong:
        """The length of what follows, in `size` bytes unless it is flexible; -1 is null."""
        if not self.is_flexible:
            return self.integer(size)
        raw: cython.longlong = 0
        shift: cython.int = 0
        while shift < 35:
            if self.position >= self.end:
                break
            byte: cython.longlong = self.view[self.position]
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
    def fields(self, begin: cython.Py_ssize_t) -> Fields:
        """The header of a batch. `native.admission` checks it."""
        return (
            self.at(begin, 8),
            self.at(begin + 8, 4),
            self.at(begin + 12, 4),
            self.at(begin + 16, 1),
            self.at(begin + 17, 4) & 0xFFFFFFFF,
            self.at(begin + 21, 2),
            self.at(begin + 23, 4),
            self.at(begin + 27, 8),
            self.at(begin + 35, 8),
            self.at(begin + 43, 8),
            self.at(begin + 51, 2),
            self.at(begin + 53, 4),
            self.at(begin + 57, 4),
        )


def read(frame: Buffer) -> Request | None:
    """The request in a frame, if it is an ordinary produce that ends with the frame."""
    reader: _Reader = _Reader(frame)
    if reader.integer(2) != _API_KEY:
        return None
    version: cython.longlong = reader.integer(2)
    if not reader.is_ordinary or version < VERSION_MIN or version > VERSION_MAX:
        return None
    correlation_id: cython.longlong = reader.integer(4)
    # A client's id has its old form in every version.
    client_id: str | None = None
    size: cython.longlong = reader.integer(2)
    if size != -1:
        client_id = _text(frame, reader, size)
        if client_id is None:
            return None
    reader.is_flexible = version >= FLEXIBLE_SINCE
    reader.no_tags()
    transactional_id: str | None = None
    size = reader.length(2)
    if size != -1:
        transactional_id = _text(frame, reader, size)
        if transactional_id is None:
            return None
    acks: cython.longlong = reader.integer(2)
    timeout_ms: cython.longlong = reader.integer(4)
    if acks < -1 or acks > 1:
        return None
    topics = _read_topics(frame, reader, version)
    reader.no_tags()
    if not topics or not reader.is_ordinary or reader.position != reader.end:
        return None
    return version, correlation_id, client_id, acks, timeout_ms, topics, transactional_id


@cython.cfunc
def _text(frame: Buffer, reader: _Reader, size: cython.longlong) -> str | None:
    """A string of so many bytes; None if it is not that."""
    begin: cython.Py_ssize_t = reader.skip(size)
    if not reader.is_ordinary:
        return None
    try:
        return bytes(frame[begin : begin + size]).decode("utf-8")
    except UnicodeDecodeError:
        return None


@cython.cfunc
def _read_topics(frame: Buffer, reader: _Reader, version: cython.longlong) -> list[Topic] | None:
    topics: list[Topic] = []
    begin: cython.Py_ssize_t
    size: cython.longlong
    left: cython.longlong = reader.length(4)
    room: cython.longlong = _BATCHES_MAX
    while left > 0 and reader.is_ordinary:
        topic: str | bytes | None
        if version >= TOPIC_IDS_SINCE:
            begin = reader.skip(_UUID_BYTES)
            topic = bytes(frame[begin : begin + _UUID_BYTES])
        else:
            topic = _text(frame, reader, reader.length(2))
        if topic is None or not reader.is_ordinary:
            return None
        batches: list[Batch] = []
        batches_left: cython.longlong = reader.length(4)
        room -= batches_left
        if room < 0:
            return None
        while batches_left > 0:
            index: cython.longlong = reader.integer(4)
            size = reader.length(4)
            begin = reader.skip(size)
            reader.no_tags()
            if not reader.is_ordinary or size < _HEADER_BYTES:
                return None
            batches.append((index, begin, begin + size, reader.fields(begin)))
            batches_left -= 1
        reader.no_tags()
        if not batches:
            return None
        topics.append((topic, batches))
        left -= 1
    return topics


def answer(
    version: int,
    correlation_id: int,
    topics: list[Topic],
    outcomes: list[Outcome],
    throttle_time_ms: int,
) -> bytearray:
    """The response frame with the offsets of every batch, in the order of the request."""
    writer: _Writer = _Writer(version, topics, len(outcomes))
    writer.integer(writer.size - 4, 4)
    writer.integer(correlation_id, 4)
    writer.no_tags()
    writer.length(len(topics), 4)
    number: cython.Py_ssize_t = 0
    for topic, batches in topics:
        writer.topic(topic)
        writer.length(len(batches), 4)
        for batch in batches:
            base_offset, start_offset = outcomes[number]
            writer.batch(batch[0], base_offset, start_offset)
            number += 1
        writer.no_tags()
    writer.integer(throttle_time_ms, 4)
    writer.no_tags()
    return writer.out


@cython.final
@cython.cclass
class _Writer:
    """A position that moves over an answer whose size is known before."""

    out: bytearray
    view: cython.uchar[::1]
    position: cython.Py_ssize_t
    size: cython.Py_ssize_t
    version: cython.int
    is_flexible: cython.bint

    def __init__(self, version: int, topics: list[Topic], outcome_count: int) -> None:
        self.version = version
        self.is_flexible = self.version >= FLEXIBLE_SINCE
        self.position = 0
        self.size = self._measured(topics, outcome_count)
        self.out = bytearray(self.size)
        self.view = self.out

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def _measured(self, topics: list[Topic], outcome_count: cython.Py_ssize_t) -> cython.longlong:
        # The frame's length, the correlation id, how long to wait.
        size: cython.Py_ssize_t = 12 + self._length_bytes(len(topics), 4)
        # Index, error, first offset, append time.
        batch_bytes: cython.Py_ssize_t = 22
        if self.version >= START_OFFSETS_SINCE:
            batch_bytes += 8
        if self.is_flexible:
            # No records at fault, no message, no tags.
            batch_bytes += 3
            size += 2 + len(topics)
        elif self.version >= RECORD_ERRORS_SINCE:
            batch_bytes += 6
        for topic, batches in topics:
            name: bytes = _encoded(topic)
            size += len(name) + self._length_bytes(len(batches), 4)
            if self.version < TOPIC_IDS_SINCE:
                size += self._length_bytes(len(name), 2)
        return size + outcome_count * batch_bytes

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def _length_bytes(self, length: cython.longlong, size: cython.int) -> cython.longlong:
        if not self.is_flexible:
            return size
        raw: cython.longlong = length + 1
        count: cython.longlong = 1
        while raw >= 0x80:
            raw >>= 7
            count += 1
        return count

    # The size was measured: whatever is written has its place.
    @cython.cfunc
    @cython.boundscheck(False)
    @cython.wraparound(False)
    @cython.exceptval(-2, check=True)
    def integer(self, value: cython.longlong, size: cython.int) -> cython.longlong:
        place: cython.int
        for place in range(size):
            self.view[self.position + size - 1 - place] = value & 0xFF
            value >>= 8
        self.position += size
        return 0

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def length(self, length: cython.longlong, size: cython.int) -> cython.longlong:
        if not self.is_flexible:
            return self.integer(length, size)
        raw: cython.longlong = length + 1
        while raw >= 0x80:
            self.integer(raw & 0x7F | 0x80, 1)
            raw >>= 7
        return self.integer(raw, 1)

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def topic(self, topic: str | bytes) -> cython.longlong:
        name: bytes = _encoded(topic)
        if self.version < TOPIC_IDS_SINCE:
            self.length(len(name), 2)
        self.out[self.position : self.position + len(name)] = name
        self.position += len(name)
        return 0

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def batch(
        self, index: cython.longlong, base_offset: cython.longlong, start_offset: cython.longlong
    ) -> cython.longlong:
        self.integer(index, 4)
        self.integer(0, 2)  # no error
        self.integer(base_offset, 8)
        self.integer(-1, 8)  # the producer's timestamps stay
        if self.version >= START_OFFSETS_SINCE:
            self.integer(start_offset, 8)
        if self.version >= RECORD_ERRORS_SINCE:
            self.length(0, 4)
            self.length(-1, 2)
        return self.no_tags()

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def no_tags(self) -> cython.longlong:
        if self.is_flexible:
            self.integer(0, 1)
        return 0


@cython.cfunc
def _encoded(topic: str | bytes) -> bytes:
    return topic.encode("utf-8") if isinstance(topic, str) else topic


def join(
    batches: Sequence[tuple[Buffer, Fields]], position: int, base_offset: int, leader_epoch: int
) -> Joined:
    """Concatenates ordinary batches, stamped with offsets and the leader epoch."""
    size: cython.Py_ssize_t = 0
    for batch, _ in batches:
        size += len(batch)
    content = bytearray(size)
    view: cython.uchar[::1] = content
    positions: list[int] = []
    first_offsets: list[int] = []
    last_offsets: list[int] = []
    begin: cython.Py_ssize_t = position
    offset: cython.longlong = base_offset
    epoch: cython.longlong = leader_epoch
    timestamps: list[int] = []
    place: cython.Py_ssize_t = 0
    for batch, fields in batches:
        content[place : place + len(batch)] = batch
        _stamp(view, place, offset, 8)
        _stamp(view, place + 12, epoch, 4)
        positions.append(begin + place)
        first_offsets.append(offset)
        offset += cython.cast(cython.longlong, fields[6])
        last_offsets.append(offset)
        timestamps.append(fields[8])
        offset += 1
        place += len(batch)
    return content, positions, first_offsets, last_offsets, timestamps


@cython.cfunc
@cython.exceptval(-2, check=True)
def _stamp(
    view: cython.uchar[::1],
    position: cython.Py_ssize_t,
    value: cython.longlong,
    size: cython.int,
) -> cython.longlong:
    place: cython.int
    for place in range(size):
        view[position + size - 1 - place] = value & 0xFF
        value >>= 8
    return 0
