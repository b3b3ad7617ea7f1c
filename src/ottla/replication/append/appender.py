"""Appends as the leader: checks leadership and ISR, admits, writes, moves the high watermark."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.acks import Acks
from ottla.protocol.batch import TRANSACTIONAL, BatchHeader, Marker, build_marker, read_header
from ottla.protocol.compression import Buffer
from ottla.protocol.primitives import NO_TIMESTAMP
from ottla.replication.append.transaction_marker import TransactionMarker
from ottla.replication.append.verification_guards import VerificationGuard
from ottla.replication.partition import Partition
from ottla.replication.replica import Replica, TopicRules
from ottla.storage.admission.leader_checks import (
    Admitted,
    RecordFault,
    Refused,
    admit,
    admits_unchanged,
)
from ottla.storage.admission.work_budget import (
    UNBOUNDED,
    UNCOUNTED_RECORDS_MAX,
    BudgetSpent,
    WorkBudget,
)
from ottla.storage.directory.directories import LogDirectories
from ottla.storage.log.config import UNLIMITED
from ottla.storage.log.joint_append import JointAppend
from ottla.storage.log.log import Log
from ottla.storage.producers.entry import SEQUENCE_MAX
from ottla.tuples import maker

# Plain numbers: every produce is compared with them.
ACKS_NONE, ACKS_LEADER, ACKS_ALL = int(Acks.NONE), int(Acks.LEADER), int(Acks.ALL)


class AppendResult(NamedTuple):
    """The offsets of an appended batch, and the high watermark that commits it."""

    first_offset: int
    committed_offset: int
    log_append_time_ms: int
    start_offset: int
    leader_epoch: int
    # 0 for a duplicate, which is not appended again.
    record_count: int
    # The answer needs no wait and holds nothing but offsets.
    is_settled: bool


_result = maker(AppendResult)


class RefusedByLog(PeerError):
    """A refusal by the log. As in Kafka, the answer then carries the log start offset."""

    def __init__(
        self, cause: PeerError, start_offset: int, record_faults: tuple[RecordFault, ...] = ()
    ) -> None:
        super().__init__(cause.code, str(cause))
        self.start_offset = start_offset
        self.record_faults = record_faults


class Appender:
    """Appends to any replica of this broker. `create_log` makes a partition's log when needed.

    `budget` bounds the work on clients' records in each turn of the loop.
    """

    __slots__ = ("_budget", "_create_log", "_directories", "_full")

    def __init__(
        self,
        create_log: Callable[[Replica], Log],
        directories: LogDirectories,
        budget: WorkBudget = UNBOUNDED,
    ) -> None:
        self._create_log = create_log
        self._directories = directories
        self._budget = budget
        # Empty nearly always, which is checked first.
        self._full = directories.full

    def why_full(self, replica: Replica) -> str | None:
        """The reason to refuse appends if the disk is below its reserve, else None."""
        return self._directories.why_full(replica.log) if self._full else None

    def append(
        self,
        replica: Replica,
        batch: memoryview,
        *,
        acks: int,
        transactional_id_given: bool,
        now_ms: int,
        header: BatchHeader | None = None,
        admitted: Admitted | None = None,
        is_own: bool = False,
        expected_leader_epoch: int | None = None,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """Appends a client's batch. PeerError if it is refused; then nothing was written.

        `header` is the batch's header if the request was read natively, and `admitted` the result
        of an earlier `admit`. BudgetSpent if `admit` has to run first, in a thread. A batch that
        `is_own` comes from the broker, which alone writes to its internal topics.
        NOT_LEADER_OR_FOLLOWER if the leader epoch differs from the expected one. A batch that
        begins a transaction needs the `guard` of its verification.
        """
        partition = replica.partition
        if not partition.is_leader:
            partition.check_leadership()
        if expected_leader_epoch is not None:
            _check_leader_epoch(partition, expected_leader_epoch)
        if acks == ACKS_ALL:
            partition.check_in_sync()
        if self._full or replica.is_internal or replica.log is None:
            self._check_rare(replica, is_own=is_own, is_admitted=admitted is not None)
        stored: Buffer = batch
        append_time_ms = NO_TIMESTAMP
        if header is None or not self._admits_unchanged(
            batch, header, replica.rules, transactional_id_given, now_ms
        ):
            if admitted is None:
                budget = UNBOUNDED if is_own else self._budget
                admitted = self.admit(replica, batch, transactional_id_given, now_ms, budget)
            stored, header, append_time_ms = admitted
        first_sequence_max = SEQUENCE_MAX
        if header.attributes & TRANSACTIONAL and not is_own:
            first_sequence_max = _first_sequence_max(replica, header, guard)
        try:
            log = replica.log or self._create_log(replica)
            # A coordinator's transactional batches have no sequences.
            appended = log.append(
                stored,
                header,
                leader_epoch=partition.leader_epoch,
                from_client=not is_own,
                first_sequence_max=first_sequence_max,
            )
        except PeerError as refused:
            raise RefusedByLog(refused, replica.start_offset) from None
        except (OSError, StorageError) as error:
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        record_count = header.count
        if appended.duplicate_timestamp_ms is not None:
            append_time_ms, record_count = appended.duplicate_timestamp_ms, 0
        else:
            _appended(replica, log.end_offset, len(stored))
        committed_offset = appended.last_offset + 1
        is_settled = (
            append_time_ms == NO_TIMESTAMP
            and log.messages_unflushed < log.flush_messages
            and (acks != ACKS_ALL or partition.high_watermark >= committed_offset)
        )
        return _result(
            (
                appended.first_offset,
                committed_offset,
                append_time_ms,
                log.start_offset,
                partition.leader_epoch,
                record_count,
                is_settled,
            )
        )

    def _check_rare(self, replica: Replica, *, is_own: bool, is_admitted: bool) -> None:
        """The checks for a full disk, an internal topic and a log that does not exist yet."""
        if self._full and (why_full := self.why_full(replica)):
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, why_full)
        if replica.is_internal and not is_own:
            raise PeerError(ErrorCode.INVALID_TOPIC_EXCEPTION, "it is the broker's own topic")
        # A batch that was admitted in a thread has waited for its turn already.
        if replica.log is None and not is_admitted and not is_own:
            self._budget.spend_on_new_log()

    def append_together(
        self, replica: Replica, batches: list[tuple[memoryview, BatchHeader]], *, now_ms: int
    ) -> JointAppend | None:
        """Appends batches of many clients by one write. They are committed together.

        None, and nothing was done, if one batch is not accepted as it is, or might not be with
        `acks=all`. Then the caller appends each batch by itself. Transactional batches must come
        from requests with a transactional id.
        """
        partition, log, rules = replica.partition, replica.log, replica.rules.admission
        if (
            log is None
            or not partition.is_leader
            or not (partition.commits_alone or partition.is_in_sync)
            or (self._full and self.why_full(replica))
            or replica.is_internal
            or log.flush_messages != UNLIMITED
        ):
            return None
        for batch, header in batches:
            if header.count > UNCOUNTED_RECORDS_MAX and not self._may_read(header.count):
                return None
            if not admits_unchanged(batch, header, rules, True, now_ms):
                return None
        try:
            appended = log.append_together(batches, leader_epoch=partition.leader_epoch)
        except (OSError, StorageError):
            return None
        if appended:
            _appended(replica, log.end_offset, appended.size_bytes)
        return appended

    def append_marker(
        self,
        replica: Replica,
        marker: TransactionMarker,
        *,
        now_ms: int,
        expected_leader_epoch: int | None = None,
    ) -> AppendResult:
        """Appends the marker that ends a transaction. PeerError if it is refused.

        Internal topics get markers as well. So does a disk below its reserve: a transaction that
        stays open holds back every read_committed consumer.
        """
        partition = replica.partition
        partition.check_leadership()
        if expected_leader_epoch is not None:
            _check_leader_epoch(partition, expected_leader_epoch)
        partition.check_in_sync()
        batch, header, ending = _built(marker, now_ms)
        try:
            log = replica.log or self._create_log(replica)
            appended = log.append_marker(
                batch,
                header,
                ending,
                leader_epoch=partition.leader_epoch,
                transaction_version=marker.transaction_version,
            )
        except (OSError, StorageError) as error:
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        replica.verifications.invalidate(marker.producer_id)
        committed_offset = appended.last_offset + 1
        if partition.appended(log.end_offset):
            replica.commits.moved(partition.high_watermark)
            # More bytes than those of the marker may be stable now.
            replica.waiting.wake_all()
        replica.waiting_followers.count(len(batch))
        return AppendResult(
            first_offset=appended.first_offset,
            committed_offset=committed_offset,
            log_append_time_ms=NO_TIMESTAMP,
            start_offset=log.start_offset,
            leader_epoch=partition.leader_epoch,
            record_count=header.count,
            is_settled=(
                log.messages_unflushed < log.flush_messages
                and partition.high_watermark >= committed_offset
            ),
        )

    def _admits_unchanged(
        self,
        batch: memoryview,
        header: BatchHeader,
        rules: TopicRules,
        transactional_id_given: bool,
        now_ms: int,
    ) -> bool:
        if header.count > UNCOUNTED_RECORDS_MAX and not self._may_read(header.count):
            return False
        return admits_unchanged(batch, header, rules.admission, transactional_id_given, now_ms)

    def _may_read(self, record_count: int) -> bool:
        """Spends a part of the turn's budget, if so much is left."""
        try:
            self._budget.spend_on_reading(record_count)
        except BudgetSpent:
            return False
        return True

    def admit(
        self,
        replica: Replica,
        batch: memoryview,
        transactional_id_given: bool,
        now_ms: int,
        budget: WorkBudget = UNBOUNDED,
    ) -> Admitted:
        """As `admission.admit`, by the rules of the replica's topic. May be called in a thread."""
        try:
            return admit(
                batch,
                replica.rules.admission,
                transactional_id_given=transactional_id_given,
                now_ms=now_ms,
                budget=budget,
            )
        except Refused as refused:
            if not refused.record_faults:
                raise
            raise RefusedByLog(refused, replica.start_offset, refused.record_faults) from None


def _check_leader_epoch(partition: Partition, expected_leader_epoch: int) -> None:
    if expected_leader_epoch != partition.leader_epoch:
        raise PeerError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"the batch is of leader epoch {expected_leader_epoch},"
            f" {partition.leader_epoch} has begun",
        )


def _first_sequence_max(
    replica: Replica, header: BatchHeader, guard: VerificationGuard | None
) -> int:
    """The highest sequence at which an unknown producer may begin its transaction.

    INVALID_TXN_STATE if the transaction is not verified, or was ended by a marker since.
    """
    log = replica.log
    if log is not None and not log.producers.begins_transaction(header):
        return SEQUENCE_MAX
    if guard is not None:
        _check_leader_epoch(replica.partition, guard.leader_epoch)
        if replica.verifications.is_valid(guard):
            return guard.lowest_sequence
    error = PeerError(
        ErrorCode.INVALID_TXN_STATE,
        f"producer {header.producer_id}, epoch {header.producer_epoch}: the batch is of no"
        " transaction that its coordinator knows",
    )
    raise RefusedByLog(error, replica.start_offset)


# A transaction ends in all its partitions at once, mostly within a millisecond.
@lru_cache(maxsize=16)
def _built(wanted: TransactionMarker, now_ms: int) -> tuple[bytes, BatchHeader, Marker]:
    """The batch of a marker. All partitions of a transaction get the same one."""
    marker = Marker(wanted.kind, wanted.coordinator_epoch)
    batch = build_marker(
        marker,
        producer_id=wanted.producer_id,
        producer_epoch=wanted.producer_epoch,
        timestamp_ms=now_ms,
    )
    return bytes(batch), read_header(batch), marker


def _appended(replica: Replica, end_offset: int, size_bytes: int) -> None:
    """Tells those who wait for an append of this size, or for the high watermark."""
    if replica.partition.appended(end_offset):
        if replica.commits.waiters:
            replica.commits.moved(end_offset)
        if replica.waiting.watchers:
            # As `Replica.high_watermark_moved`, which would look up the size.
            if replica.last_stable_offset == end_offset:
                replica.waiting.count(size_bytes)
            else:
                replica.waiting.count_unstable(size_bytes)
    if replica.waiting_followers.watchers:
        replica.waiting_followers.count(size_bytes)
