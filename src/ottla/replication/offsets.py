"""Offsets of a partition for ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

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

# In DeleteRecords this offset stands for the high watermark.
UP_TO_THE_WATERMARK = -1
NOT_FOUND = TimestampOffset(NO_TIMESTAMP, -1, -1)


def is_special(timestamp_ms: int) -> bool:
    """Whether the answer needs no read of records."""
    return timestamp_ms < 0 and timestamp_ms != OffsetSpec.MAX_TIMESTAMP


def special_offset(
    replica: Replica, timestamp_ms: int, isolation: Isolation | None
) -> TimestampOffset:
    """The offset for a special timestamp, or NOT_FOUND.

    `isolation` limits the answer to what such a consumer may read; None means the whole log.
    PeerError OFFSET_NOT_AVAILABLE while a new leader does not know the high watermark.
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
    """The search for the first record with at least this time, or with the largest time."""
    if timestamp_ms == OffsetSpec.MAX_TIMESTAMP:
        return time_search.latest(log)
    return time_search.first_since(log, timestamp_ms)


def offset_found(
    replica: Replica, found: TimestampOffset | None, isolation: Isolation | None
) -> TimestampOffset:
    """The answer for a record that a search found. PeerError as `special_offset`."""
    if found is not None and found.offset < readable_end(replica, isolation):
        return found
    if isolation is not None:
        _require_known_end(replica)
    return NOT_FOUND


def readable_end(replica: Replica, isolation: Isolation | None) -> int:
    """The offset at which a reader of this isolation level stops, exclusive."""
    if isolation is None:
        return replica.end_offset
    if isolation is Isolation.READ_COMMITTED:
        return replica.last_stable_offset
    return replica.high_watermark


def epoch_end(replica: Replica, epoch: int) -> EpochEnd:
    """The largest leader epoch up to `epoch`, and its end offset."""
    log = replica.log
    if log is not None:
        return log.epochs.end_offset(epoch, log.end_offset)
    # Nothing was written yet: only the current leader epoch is known, and it is empty.
    leader_epoch = replica.partition.leader_epoch
    return EpochEnd(leader_epoch, 0) if epoch == leader_epoch else UNKNOWN_END


def start_after_deletion(replica: Replica, offset: int) -> int:
    """The log start offset after DeleteRecords up to `offset`. PeerError if it is refused."""
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
