"""A partition's offsets: by time, by leader epoch, and where it starts."""

from ottla.errors import ErrorCode, OffsetOutOfRange, PeerError
from ottla.metadata.topic_names import is_internal
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.primitives import NO_TIMESTAMP
from ottla.replication.replica import Replica
from ottla.storage.log import time_search
from ottla.storage.log.leader_epochs import UNKNOWN_END, EpochEnd
from ottla.storage.log.log import Log
from ottla.storage.log.time_search import Search, TimestampOffset

# What DeleteRecords calls the high watermark.
UP_TO_THE_WATERMARK = -1
NOT_FOUND = TimestampOffset(NO_TIMESTAMP, -1, -1)


def is_special(timestamp_ms: int) -> bool:
    """Whether no record has to be read for the answer."""
    return timestamp_ms < 0 and timestamp_ms != OffsetSpec.MAX_TIMESTAMP


def special_offset(
    replica: Replica, timestamp_ms: int, isolation: Isolation | None
) -> TimestampOffset:
    """What a special time stands for; NOT_FOUND if there is nothing.

    As far as such a reader may read; None reads all that is in the log. PeerError
    OFFSET_NOT_AVAILABLE while a new leader cannot tell what of its predecessor is committed.
    """
    match timestamp_ms:
        case OffsetSpec.LATEST:
            if isolation is not None:
                _require_known_end(replica)
            end_offset = readable_end(replica, isolation)
            return TimestampOffset(NO_TIMESTAMP, end_offset, replica.partition.leader_epoch)
        case OffsetSpec.EARLIEST | OffsetSpec.EARLIEST_LOCAL:
            return _earliest(replica)
        case _:
            return NOT_FOUND


def search_by_time(log: Log, timestamp_ms: int) -> Search:
    """The search for the first record at or behind a time, or for that with the largest one."""
    if timestamp_ms == OffsetSpec.MAX_TIMESTAMP:
        return time_search.latest(log)
    return time_search.first_since(log, timestamp_ms)


def offset_found(
    replica: Replica, found: TimestampOffset | None, isolation: Isolation | None
) -> TimestampOffset:
    """What a reader is told of the record that a search found. PeerError as `special_offset`."""
    if found is not None and found.offset < readable_end(replica, isolation):
        return found
    if isolation is not None:
        _require_known_end(replica)
    return NOT_FOUND


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


def _require_known_end(replica: Replica) -> None:
    if not replica.partition.is_committed_to_epoch:
        raise PeerError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"committed up to {replica.high_watermark}, the leader began at"
            f" {replica.partition.epoch_start_offset}",
        )
