"""Applies the leader's answer to a follower's log: truncation, records, high watermark, log start.

The follower's log is a copy of the leader's. Where the leader says that they diverge, the follower
truncates, by leader epochs (KIP-101, KIP-279); the high watermark decides nothing there.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.client.errors import error_code
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.fetch import DivergingEpoch
from ottla.protocol.primitives import NO_LEADER_EPOCH, Part
from ottla.replication.following.session import Position
from ottla.replication.replica import Replica
from ottla.seams.files import Buffer
from ottla.storage.log.leader_epochs import UNKNOWN_END, EpochEnd
from ottla.storage.log.log import Log


class PartitionUpdate(Protocol):
    """The leader's answer for one partition: a PartitionResult, or an ordinary update."""

    @property
    def error_code(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def diverging_epoch(self) -> DivergingEpoch | None: ...

    @property
    def records(self) -> Part | None: ...


class OrdinaryUpdate(NamedTuple):
    """An answer without an error, with or without records."""

    high_watermark: int
    log_start_offset: int
    records: memoryview
    error_code: int = ErrorCode.NONE
    diverging_epoch: DivergingEpoch | None = None


class FollowerLogs(NamedTuple):
    """What a follower does with its logs besides appending."""

    # Creates the log of a replica at a log start offset.
    create: Callable[[Replica, int], Log]
    # Takes over the leader's log start offset, soon.
    follow_start: Callable[[Replica, int], None]


def position_of(replica: Replica) -> Position:
    """Where a follower continues to fetch."""
    log, leader_epoch = replica.log, replica.partition.leader_epoch
    if log is None:
        return Position(leader_epoch, 0, NO_LEADER_EPOCH, 0)
    return Position(leader_epoch, log.end_offset, log.last_written_epoch, log.start_offset)


def update_replica(replica: Replica, result: PartitionUpdate, logs: FollowerLogs) -> None:
    """Takes the leader's answer for one partition.

    PeerError if it is an error or cannot be applied, OSError if the disk is full, StorageError if
    the log is offline.
    """
    if result.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        _restart(replica, result.log_start_offset, logs)
        return
    if result.error_code != ErrorCode.NONE:
        code = error_code(result.error_code)
        raise PeerError(code, f"the leader answers {code.name}")
    if result.diverging_epoch is not None:
        diverging = result.diverging_epoch
        _truncate(replica, EpochEnd(diverging.epoch, diverging.end_offset))
        return
    if result.records:
        log = replica.log or logs.create(replica, 0)
        records: Buffer = result.records  # type: ignore[assignment]  # decoded, not a file slice
        log.append_replicated(records)
    partition = replica.partition
    before, end_offset = partition.high_watermark, replica.end_offset
    if partition.replicated(end_offset, result.high_watermark):
        replica.high_watermark_moved(before)
    if replica.start_offset < result.log_start_offset <= end_offset:
        logs.follow_start(replica, result.log_start_offset)


def _truncate(replica: Replica, diverging: EpochEnd) -> None:
    """Removes the records that the leader does not have, or a part of them.

    The leader has no records of the follower's last epoch beyond these. If its epoch is an earlier
    one, the follower may have more of that epoch than the leader, or less: then it asks again.
    """
    log = replica.log
    if log is None:
        return
    own = log.epochs.end_offset(diverging.epoch, log.end_offset)
    end_offset = diverging.end_offset
    if own != UNKNOWN_END:
        end_offset = min(end_offset, own.end_offset)
    log.truncate(end_offset)
    replica.partition.truncated(log.end_offset)
    replica.wake_all()


def _restart(replica: Replica, start_offset: int, logs: FollowerLogs) -> None:
    """The log ends before the leader's starts: continues at the leader's log start offset."""
    log = replica.log
    if start_offset <= replica.end_offset:
        raise PeerError(ErrorCode.OFFSET_OUT_OF_RANGE, "the leader's log does not start later")
    if log is None:
        logs.create(replica, start_offset)
    else:
        log.restart_at(start_offset)
    # The leader deletes committed records only.
    replica.partition.replicated(start_offset, start_offset)
    replica.wake_all()
