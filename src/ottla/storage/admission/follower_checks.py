"""What a log checks of batches that its leader, or a coordinator, wrote. Does no I/O."""

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
    """Whether a leader's batch may follow a log that ends at `end_offset`. PeerError if not."""
    if header.magic != MAGIC or not crc_is_valid(batches, header, position):
        raise CorruptBatch(position, "not whole, or not what its checksum says")
    if header.base_offset < end_offset or header.last_offset_delta < 0:
        raise PeerError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offsets {header.base_offset} to {header.last_offset} were sent to a log"
            f" that ends at {end_offset}",
        )
    if header.last_offset - end_offset > OFFSET_DELTA_MAX:
        raise PeerError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the hole before offset {header.base_offset} is wider than a segment can index",
        )


def marker_of(batch: Buffer, header: BatchHeader) -> Marker | None:
    """The end of a transaction that a control batch holds; an emptied one holds none."""
    if not header.is_control or header.count == 0:
        return None
    marker = read_marker(batch)
    if marker is None:
        raise PeerError(ErrorCode.INVALID_RECORD, "a control batch of a kind that is not known")
    return marker
