"""Logs that went offline on a live broker: it leaves their ISRs. Decides, does no I/O."""

from collections.abc import Sequence
from dataclasses import replace

from ottla.metadata.controller.broker_changes import partition_updates
from ottla.metadata.image import Image
from ottla.metadata.records import Record
from ottla.metadata.values import PartitionId


def logs_offline(
    image: Image, broker_id: int, partitions: Sequence[PartitionId]
) -> Sequence[Record]:
    """The records by which a broker no longer counts as live for these partitions.

    Until it registers again: then it tells anew which logs are offline.
    """
    broker = image.brokers[broker_id]
    known = set(broker.offline)
    new = [each for each in dict.fromkeys(partitions) if each not in known]
    if not new:
        return ()
    told = replace(broker, offline=(*broker.offline, *new))
    fork = image.fork()
    fork.apply(told)
    return (told, *partition_updates(fork, new).records)
