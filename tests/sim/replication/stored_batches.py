"""The batches of a log as they lie on a simulated disk, read past its faults and its trace."""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from ottla.protocol.batch import HEADER_BYTES, MAGIC, BatchHeader, read_header
from ottla.storage.log.log import Log
from ottla.storage.log.segment import LOG, Segment
from tests.sim.seams.contents import FileNode
from tests.sim.seams.medium import Medium

DIGEST_BYTES = 12
# In a batch: all that follows is covered.
CHECKSUM_POSITION = 17


class StoredBatch(NamedTuple):
    header: BatchHeader
    content: bytes

    @property
    def digest(self) -> bytes:
        return hashlib.blake2b(self.content, digest_size=DIGEST_BYTES).digest()

    @property
    def offsets(self) -> range:
        return range(self.header.base_offset, self.header.next_offset)


def batches_in(content: bytes, position: int = 0) -> Iterator[StoredBatch]:
    """The whole batches from `position` on, up to the first one that is not whole."""
    while len(content) - position >= HEADER_BYTES:
        header = read_header(content, position)
        batch = content[position : position + header.size]
        if header.magic != MAGIC or len(batch) < max(header.size, HEADER_BYTES):
            return
        yield StoredBatch(header, batch)
        position += header.size


def stored_batches(log: Log) -> list[StoredBatch]:
    """All batches of a log, in the order of its segments."""
    return list(batches_from(log, log.segments[0], 0))


def batches_from(log: Log, first: Segment, position: int) -> Iterator[StoredBatch]:
    """The batches from a position in a segment on. The segment may have been removed since."""
    for segment in log.segments:
        if segment.base_offset >= first.base_offset:
            start = position if segment.base_offset == first.base_offset else 0
            yield from batches_in(_content(log, segment), start)


def unsaved_batches(log: Log) -> Iterator[tuple[str, range]]:
    """The batches of the last segment that a recovery reads, besides the last one.

    Each with its file, and the positions that its checksum covers.
    """
    segment, position = log.segments[-1], 0
    for batch in list(batches_in(_content(log, segment)))[:-1]:
        end = position + batch.header.size
        if batch.header.base_offset >= log.recovery_point:
            yield segment.path(LOG), range(position + CHECKSUM_POSITION, end)
        position = end


def _content(log: Log, segment: Segment) -> bytes:
    medium: Medium = log._pool.files.medium  # type: ignore[attr-defined]  # simulated
    node = medium.find(segment.path(LOG))
    assert isinstance(node, FileNode)
    return node.content.read(0, node.content.size)
