"""The leader's way to append: checked, admitted, written, and committed as far as it is."""

from collections.abc import Callable
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.batch import read_header, stamp_log_append_time
from ottla.replication.replica import Replica
from ottla.storage.admission import Refused, admit
from ottla.storage.log import Log

ACKS_ALL = -1
NO_TIMESTAMP = -1


class AppendResult(NamedTuple):
    """Where a batch went, and the offset at which it is committed."""

    first_offset: int
    committed_offset: int
    log_append_time_ms: int
    start_offset: int
    leader_epoch: int
    # None were appended if the batch was there already.
    record_count: int


class RefusedByLog(PeerError):
    """The log was asked and refused: the answer carries its start."""

    def __init__(self, cause: PeerError, start_offset: int, record_index: int | None) -> None:
        super().__init__(cause.code, str(cause))
        self.start_offset = start_offset
        self.record_index = record_index


class Appender:
    """Appends to any replica of this broker. `create_log` makes a partition's log when needed."""

    __slots__ = ("_create_log", "is_full")

    def __init__(self, create_log: Callable[[Replica], Log]) -> None:
        self._create_log = create_log
        # Set while the disk is below its reserve: reads and retention go on.
        self.is_full: str | None = None

    def append(
        self,
        replica: Replica,
        batch: memoryview,
        *,
        acks: int,
        transactional_id_given: bool,
        now_ms: int,
    ) -> AppendResult:
        """Appends a client's batch. PeerError if it is refused; then nothing was written."""
        partition = replica.partition
        partition.check_leadership()
        if acks == ACKS_ALL:
            partition.check_in_sync()
        if self.is_full:
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, self.is_full)
        rules = replica.rules.admission
        try:
            header = admit(
                batch, rules, transactional_id_given=transactional_id_given, now_ms=now_ms
            )
        except Refused as refused:
            if refused.record_index is None:
                raise
            raise RefusedByLog(refused, replica.start_offset, refused.record_index) from None
        append_time_ms = NO_TIMESTAMP
        if rules.log_append_time:
            stamp_log_append_time(batch, now_ms)
            header, append_time_ms = read_header(batch), now_ms
        try:
            log = replica.log or self._create_log(replica)
            appended = log.append(batch, header, leader_epoch=partition.leader_epoch, now_ms=now_ms)
        except PeerError as refused:
            raise RefusedByLog(refused, replica.start_offset, None) from None
        except (OSError, StorageError) as error:
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        record_count = header.count
        if appended.duplicate_timestamp_ms is not None:
            append_time_ms, record_count = appended.duplicate_timestamp_ms, 0
        elif partition.appended(log.end_offset):
            replica.waiting.count(header.size)
        return AppendResult(
            appended.first_offset,
            appended.last_offset + 1,
            append_time_ms,
            log.start_offset,
            partition.leader_epoch,
            record_count,
        )
