"""The batch of a shard's decisions, as Kafka's coordinators write it."""

from collections.abc import Sequence

from ottla.protocol import batch
from ottla.protocol.producer_epoch import NO_PRODUCER, ProducerIdAndEpoch
from ottla.tuples import maker

_batch_record = maker(batch.Record)

# The key and the value of a record; a value of None is a tombstone.
Row = tuple[bytes, bytes | None]


def build_batch(rows: Sequence[Row], now_ms: int, producer: ProducerIdAndEpoch) -> bytearray:
    """A batch of the producer's transaction, or of none if it is NO_PRODUCER."""
    records = [
        _batch_record((offset, now_ms, key, value, ())) for offset, (key, value) in enumerate(rows)
    ]
    # Base sequence 0, with and without a producer id.
    return batch.build(
        records,
        base_sequence=0,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transactional=producer is not NO_PRODUCER,
    )
