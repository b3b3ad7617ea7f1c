"""Logs that went offline on a live broker: it leaves their ISRs. Decides, does no I/O."""

from collections.abc import Sequence
from dataclasses import replace

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.broker_changes import partition_updates
from ottla.metadata.image import Image
from ottla.metadata.records import Record
from ottla.metadata.values import PartitionId

# The limit of one broker's record. A broker with more should not run.
OFFLINE_MAX = 1_000


def logs_offline(
    image: Image, broker_id: int, partitions: Sequence[PartitionId]
) -> Sequence[Record]:
    """The records by which a broker no longer counts as live for these partitions.

    Until it registers again: then it tells anew which logs are offline. PeerError INVALID_REQUEST
    if there are too many.
    """
    broker = image.brokers[broker_id]
    known = set(broker.offline)
    new = [
        each
        for each in dict.fromkeys(partitions)
        if each not in known and image.partition(*each) is not None
    ]
    if not new:
        return ()
    kept = [each for each in broker.offline if image.partition(*each) is not None]
    if len(kept) + len(new) > OFFLINE_MAX:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"More than {OFFLINE_MAX} logs of broker {broker_id}."
        )
    told = replace(broker, offline=(*kept, *new))
    fork = image.fork()
    fork.apply(told)
    return (told, *partition_updates(fork, new))
