"""A producer id with its epoch."""

from typing import NamedTuple

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
PRODUCER_EPOCH_MAX = 0x7FFF


class ProducerIdAndEpoch(NamedTuple):
    """One incarnation of a producer: a higher epoch of the same id fences it."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def is_exhausted(producer_epoch: int) -> bool:
    """Whether no client may get a higher epoch: the last one is kept to fence the producer."""
    return producer_epoch >= PRODUCER_EPOCH_MAX - 1
