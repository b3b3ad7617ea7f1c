"""A partition's offsets: by time, by leader epoch, and where it starts."""

from enum import IntEnum

from ottla.errors import ErrorCode, OffsetOutOfRange, PeerError, StorageError
from ottla.metadata.topic_names import is_internal
from ottla.replication.reads import Isolation
from ottla.replication.replica import Replica
from ottla.storage.epochs import UNKNOWN_END, EpochEnd
from ottla.storage.log import Log, TimestampOffset

NO_TIMESTAMP = -1
# What DeleteRecords calls the high watermark.
UP_TO_THE_WATERMARK = -1
NOT_FOUND = TimestampOffset(NO_TIMESTAMP, -1, -1)


class SpecialTime(IntEnum):
    """What ListOffsets asks for instead of a time."""

    LATEST = -1
    EARLIEST = -2
    LARGEST_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


def offset_at(replica: Replica, timestamp_ms: int, isolation: Isolation | None) -> TimestampOffset:
    """The first offset at or behind a time, or a special one; NOT_FOUND if there is none.

    As far as such a reader may read; None reads all that is in the log. PeerError
    OFFSET_NOT_AVAILABLE while a new leader cannot tell what of its predecessor is committed.
    """
    partition = replica.partition
    match timestamp_ms:
        case SpecialTime.LATEST:
            if isolation is not None:
                _require_known_end(replica)
            end_offset = readable_end(replica, isolation)
            return TimestampOffset(NO_TIMESTAMP, end_offset, partition.leader_epoch)
        case SpecialTime.EARLIEST | SpecialTime.EARLIEST_LOCAL:
            return _earliest(replica)
        case SpecialTime.LATEST_TIERED | SpecialTime.EARLIEST_PENDING_UPLOAD:
            return NOT_FOUND
        case _:
            return _by_time(replica, timestamp_ms, isolation)


def readable_end(replica: Replica, isolation: Isolation | None) -> int:
    """Where a reader has to stop, exclusive."""
    if isolation is None:
        return replica.end_offset
    if isolation is Isolation.READ_COMMITTED:
        return replica.last_stable_offset
    return replica.high_watermark


def epoch_end(replica: Replica, epoch: int) -> EpochEnd:
    """The largest leader epoch up to the one asked for, and where it ends."""
    log = replica.log
    if log is not None:
        return log.epochs.end_offset(epoch, log.end_offset)
    # Nothing was written yet: only the present epoch is known, and it is empty.
    leader_epoch = replica.partition.leader_epoch
    return EpochEnd(leader_epoch, 0) if epoch == leader_epoch else UNKNOWN_END


def start_after_deletion(replica: Replica, offset: int) -> int:
    """Where a partition starts if nothing before `offset` is to be read again.

    PeerError if that cannot be.
    """
    if is_internal(replica.name.topic):
        raise PeerError(ErrorCode.INVALID_TOPIC_EXCEPTION, "it is the broker's own topic")
    if not replica.rules.retention.deletes:
        raise PeerError(ErrorCode.POLICY_VIOLATION, "cleanup.policy does not include delete")
    if offset == UP_TO_THE_WATERMARK:
        offset = replica.high_watermark
    if not 0 <= offset <= replica.high_watermark:
        raise OffsetOutOfRange(offset, replica.start_offset, replica.high_watermark)
    return max(offset, replica.start_offset)


def _earliest(replica: Replica) -> TimestampOffset:
    log = replica.log
    if log is None:
        return TimestampOffset(NO_TIMESTAMP, 0, replica.partition.leader_epoch)
    epoch = log.epochs.epoch_at(log.start_offset)
    return TimestampOffset(NO_TIMESTAMP, log.start_offset, -1 if epoch is None else epoch)


def _by_time(replica: Replica, timestamp_ms: int, isolation: Isolation | None) -> TimestampOffset:
    found = _find(replica.log, timestamp_ms) if replica.log is not None else None
    if found is not None and found.offset < readable_end(replica, isolation):
        return found
    if isolation is not None:
        _require_known_end(replica)
    return NOT_FOUND


def _find(log: Log, timestamp_ms: int) -> TimestampOffset | None:
    try:
        if timestamp_ms == SpecialTime.LARGEST_TIMESTAMP:
            return log.largest_timestamp()
        return log.offset_for_time(timestamp_ms)
    except (StorageError, OSError) as error:
        raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _require_known_end(replica: Replica) -> None:
    if not replica.partition.is_committed_to_epoch:
        raise PeerError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"committed up to {replica.high_watermark}, the leader began at"
            f" {replica.partition.epoch_start_offset}",
        )
