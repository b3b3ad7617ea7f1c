"""Finds the logs that lost records, although their broker left its disks intact."""

from ottla.metadata.values import PartitionId
from ottla.replication.replicas import Replicas
from ottla.storage.opening.tail_scan import Recovery


def damaged_partitions(replicas: Replicas) -> list[PartitionId]:
    """The partitions whose recovery cut more than a write that was not finished.

    The records of an unfinished write were not acknowledged.
    """
    recoveries = {
        name: recovery
        for directory in replicas.directories.directories
        for name, recovery in directory.recoveries.items()
    }
    return [
        PartitionId(replica.partition.topic_id, replica.partition.index)
        for replica in replicas
        if _is_damaged(recoveries.get(replica.name))
    ]


def _is_damaged(recovery: Recovery | None) -> bool:
    return recovery is not None and recovery.cut_because is not None and not recovery.is_torn_write
