"""Headers of batches that need no bytes, for what decides by headers alone."""

from ottla.protocol.batch import BatchHeader

TRANSACTIONAL = 0x10
CONTROL = 0x20


def data_batch(
    base_offset: int = 0,
    *,
    count: int = 1,
    producer_id: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    timestamp_ms: int = 1_000,
    transactional: bool = False,
) -> BatchHeader:
    return BatchHeader(
        base_offset=base_offset,
        length=49 + 10 * count,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=TRANSACTIONAL if transactional else 0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        count=count,
    )


def marker_batch(
    base_offset: int, *, producer_id: int = 7, epoch: int = 0, timestamp_ms: int = 1_000
) -> BatchHeader:
    header = data_batch(
        base_offset,
        producer_id=producer_id,
        epoch=epoch,
        sequence=-1,
        timestamp_ms=timestamp_ms,
    )
    return header._replace(attributes=TRANSACTIONAL | CONTROL)


def emptied(header: BatchHeader) -> BatchHeader:
    """What the cleaner leaves of a batch whose records are all gone."""
    return header._replace(count=0, length=49)
