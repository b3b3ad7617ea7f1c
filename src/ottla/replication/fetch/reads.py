"""Reads records of a partition, as slices of the log's files: committed ones for consumers, all for
followers.
"""

from typing import NamedTuple

from ottla.errors import ErrorCode, OffsetOutOfRange, PeerError, StorageError
from ottla.metadata.values import Incarnation
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.primitives import NO_BROKER, NO_LEADER_EPOCH
from ottla.replication.replica import Replica
from ottla.storage.log.file_slice import FileSlice
from ottla.storage.log.leader_epochs import UNKNOWN_END, EpochEnd
from ottla.storage.log.log import Log
from ottla.storage.producers.state import AbortedTransaction
from ottla.tuples import maker


class ReadResult(NamedTuple):
    """The answer for one partition. `aborted` is None for read_uncommitted."""

    records: FileSlice | None
    high_watermark: int
    last_stable_offset: int
    start_offset: int
    aborted: list[AbortedTransaction] | None
    # Whether the fetch offset is the end of what the consumer may read.
    is_caught_up: bool
    # Where the log of the reader diverged from this one, if it did. Then there are no records.
    diverging: EpochEnd | None = None
    # The broker that a consumer should read from instead. Then there are no records.
    preferred_read_replica: int = NO_BROKER

    @property
    def size(self) -> int:
        return self.records.size if self.records else 0


_make_result = maker(ReadResult)


def read(
    replica: Replica,
    offset: int,
    *,
    bytes_max: int,
    isolation: Isolation,
    is_first: bool = True,
    current_leader_epoch: int = NO_LEADER_EPOCH,
    last_fetched_epoch: int = NO_LEADER_EPOCH,
    warm_only: bool = False,
    may_follow: bool = False,
) -> ReadResult:
    """The committed batches from the one that holds `offset` on. PeerError if it cannot be read.

    With `may_follow` a follower serves them too, up to its own high watermark (KIP-392). With
    `warm_only` it raises ColdRead where it would have to wait for the disk.

    Returns at most `bytes_max`. The first partition of a reply (`is_first`) gives its first batch
    whole, however large. Any other partition gives nothing if its first batch does not fit.
    """
    partition = replica.partition
    if may_follow:
        partition.check_leader_epoch(current_leader_epoch)
    else:
        partition.check_leadership(current_leader_epoch)
    is_committed_only = isolation is Isolation.READ_COMMITTED
    log = replica.log
    if log is None:
        if offset != 0:
            raise OffsetOutOfRange(offset, 0, 0)
        return ReadResult(None, 0, 0, 0, [] if is_committed_only else None, True)
    if log.offline is not None:
        raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(log.offline))
    high_watermark, stable_offset = partition.high_watermark, replica.last_stable_offset
    bound = stable_offset if is_committed_only else high_watermark
    records, diverging = None, None
    aborted: list[AbortedTransaction] | None = [] if is_committed_only else None
    if last_fetched_epoch != NO_LEADER_EPOCH:
        diverging = _diverging(log, offset, last_fetched_epoch)
    if diverging is None and not log.start_offset <= offset <= log.end_offset:
        raise OffsetOutOfRange(offset, log.start_offset, log.end_offset)
    if diverging is None and offset < bound and (is_first or bytes_max > 0):
        try:
            records = log.read(offset, bytes_max=bytes_max, end_offset=bound, warm_only=warm_only)
            if records and not is_first and records.size > bytes_max:
                records = None
            if records and is_committed_only:
                aborted = log.aborted_in(records, offset, bound, warm_only=warm_only)
        except (StorageError, OSError) as error:
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    return ReadResult(
        records,
        high_watermark,
        stable_offset,
        log.start_offset,
        aborted,
        offset >= bound,
        diverging,
    )


def redirect(replica: Replica, broker_id: int, current_leader_epoch: int) -> ReadResult:
    """The leader's answer to a consumer that should read from another replica (KIP-392)."""
    replica.partition.check_leadership(current_leader_epoch)
    return ReadResult(
        None,
        replica.high_watermark,
        replica.last_stable_offset,
        replica.start_offset,
        None,
        is_caught_up=False,
        preferred_read_replica=broker_id,
    )


def read_for_follower(
    replica: Replica,
    follower: Incarnation,
    offset: int,
    *,
    start_offset: int,
    bytes_max: int,
    is_first: bool,
    current_leader_epoch: int,
    last_fetched_epoch: int,
    warm_only: bool = False,
) -> ReadResult:
    """All batches from `offset` on. As `read`, but up to the log end.

    It also reports the follower's progress: what it fetches from an offset on, it has before. So
    this may move the high watermark. OFFSET_OUT_OF_RANGE if its log ends before this one starts.
    """
    partition = replica.partition
    partition.check_leadership(current_leader_epoch)
    log = replica.log
    log_start, log_end = 0, 0
    if log is not None:
        if log.offline is not None:
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(log.offline))
        log_start, log_end = log.start_offset, log.end_offset
    if offset < log_start:
        raise OffsetOutOfRange(offset, log_start, log_end)
    diverging = _follower_diverges(replica, offset, last_fetched_epoch)
    records = None
    if diverging is None:
        replica.fetched_by(follower, offset, start_offset)
        if log is not None and offset < log_end and (is_first or bytes_max > 0):
            try:
                records = log.read(offset, bytes_max=bytes_max, warm_only=warm_only)
            except (StorageError, OSError) as error:
                raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            if records and not is_first and records.size > bytes_max:
                records = None
    high_watermark = partition.high_watermark
    return _make_result(
        (
            records,
            high_watermark,
            high_watermark,
            log_start,
            None,
            offset >= log_end,
            diverging,
            NO_BROKER,
        )
    )


def _follower_diverges(replica: Replica, offset: int, last_fetched_epoch: int) -> EpochEnd | None:
    """Where a follower must truncate. None if all that it has is in this log."""
    log, end = replica.log, UNKNOWN_END
    if log is not None and last_fetched_epoch != NO_LEADER_EPOCH:
        if last_fetched_epoch == log.epochs.latest_epoch and offset <= log.end_offset:
            return None  # nearly always: the last epoch of both ends where the log ends
        end = log.epochs.end_offset(last_fetched_epoch, log.end_offset)
    if end == UNKNOWN_END:
        # It has no record, or this log has none: only the ends can be compared.
        end = EpochEnd(max(last_fetched_epoch, 0), replica.end_offset)
    return end if end.epoch < last_fetched_epoch or end.end_offset < offset else None


def _diverging(log: Log, offset: int, last_fetched_epoch: int) -> EpochEnd | None:
    """Where a follower with this epoch up to this offset must truncate. None if nowhere."""
    end = log.epochs.end_offset(last_fetched_epoch, log.end_offset)
    if end == UNKNOWN_END or offset < log.start_offset:
        raise OffsetOutOfRange(offset, log.start_offset, log.end_offset)
    return end if end.epoch < last_fetched_epoch or end.end_offset < offset else None
