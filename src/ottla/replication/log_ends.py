"""The ends of this broker's logs, as an unclean election compares them."""

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.unclean_election import LogEnd
from ottla.metadata.image import Image
from ottla.metadata.values import PartitionId
from ottla.replication.lookup import find_replica
from ottla.replication.replicas import Replicas

NO_EPOCH = -1


def log_end(replicas: Replicas, image: Image, where: PartitionId) -> LogEnd:
    """The end of a log, as the disk has it. PeerError if there is no such log, or it is offline."""
    replica = find_replica(replicas, image, where.topic_id, where.partition)
    log = replica.log
    if log is not None and log.offline is not None:
        raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, "its log is offline")
    return LogEnd(NO_EPOCH if log is None else log.last_written_epoch, replica.end_offset)
