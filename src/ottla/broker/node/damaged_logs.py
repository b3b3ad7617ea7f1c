"""Finds the logs that lost records, although their broker left its disks intact."""

from ottla.metadata.values import PartitionId
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.storage.directory.directory import LogDirectory


def damaged_partitions(replicas: Replicas) -> list[PartitionId]:
    """The partitions whose recovery cut more than a write that was not finished, or whose logs are
    missing in their log directory.

    The records of an unfinished write were not acknowledged.
    """
    directories = replicas.directories.directories
    return [
        PartitionId(replica.partition.topic_id, replica.partition.index)
        for replica in replicas
        if any(_is_damaged(replica, directory) for directory in directories)
    ]


def _is_damaged(replica: Replica, directory: LogDirectory) -> bool:
    if replica.log is None:
        return replica.name in directory.missing and not replica.is_unusable
    recovery = directory.recoveries.get(replica.name)
    return recovery is not None and recovery.cut_because is not None and not recovery.is_torn_write
