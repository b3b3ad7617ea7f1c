"""Checks of batches that the leader replicated or a coordinator wrote. Does no I/O.

The leader admitted a replicated batch already (`leader_checks`). A follower repeats the checks of
magic and checksum, because the batch crossed the network, and adds those of its offsets.
"""

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import (
    MAGIC,
    BatchHeader,
    CorruptBatch,
    Marker,
    crc_is_valid,
    read_marker,
)
from ottla.seams.files import Buffer
from ottla.storage.log.retention import OFFSET_DELTA_MAX


def check_replicated(
    batches: memoryview, position: int, header: BatchHeader, end_offset: int
) -> None:
    """Raises PeerError unless a replicated batch may follow a log that ends at `end_offset`."""
    if header.magic != MAGIC or not crc_is_valid(batches, header, position):
        raise CorruptBatch(position, "incomplete, or the checksum does not match")
    if header.base_offset < end_offset or header.last_offset_delta < 0:
        raise PeerError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offsets {header.base_offset} to {header.last_offset} do not follow log end offset"
            f" {end_offset}",
        )
    if header.last_offset - end_offset > OFFSET_DELTA_MAX:
        raise PeerError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the gap before offset {header.base_offset} is wider than a segment can index",
        )


def marker_of(batch: Buffer, header: BatchHeader) -> Marker | None:
    """The transaction marker of a control batch. None if the cleaner emptied the batch."""
    if not header.is_control or header.count == 0:
        return None
    marker = read_marker(batch)
    if marker is None:
        raise PeerError(ErrorCode.INVALID_RECORD, "a control batch of an unknown type")
    return marker
