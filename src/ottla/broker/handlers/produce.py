"""Produce (0) v3-13. Batches are appended unchanged; acks 0, 1 and all; idempotent producers;
answers wait for a flush if `flush.messages` asks for it. Gaps: transactional batches are refused
with INVALID_PRODUCER_EPOCH, as Kafka refuses those of an unknown transaction; an answer does not
name the current leader (KIP-951).
"""

import asyncio
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.broker.requests.authorization import Unauthorized, may, topic_resource
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.metadata.values import AclOperation, AclResource
from ottla.metrics.meters import TopicCounters
from ottla.native import produce as native_produce
from ottla.protocol.batch import HEADER_BYTES, BatchHeader, make_header, read_header
from ottla.protocol.messages.produce import (
    Partition,
    PartitionResult,
    ProduceRequest,
    ProduceResponse,
    RecordError,
    TopicResult,
)
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.replication.append.acknowledgement import Unacknowledged, is_committed, until_committed
from ottla.replication.append.appender import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    AppendResult,
    RefusedByLog,
)
from ottla.replication.lookup import TopicKey, find_replica, topic_name
from ottla.replication.replica import Replica
from ottla.storage.admission.leader_checks import Admitted, Refused
from ottla.storage.admission.work_budget import BudgetSpent, WorkBudget

if TYPE_CHECKING:
    from ottla.broker.net.session import Session
    from ottla.broker.requests.produce_fast_path import Destination, GatheredProduce
    from ottla.broker.requests.services import Services

API_NAME = "Produce"
TOPIC_IDS_SINCE = 13


class Unadmitted(NamedTuple):
    """A batch that exceeds the turn's budget, to be admitted in a thread. `records` is a copy."""

    replica: Replica
    records: memoryview
    acks: int
    transactional_id_given: bool


class ProduceOutcome:
    """The outcome of one partition's batch."""

    __slots__ = ("appended", "error", "index", "replica", "unadmitted")

    def __init__(
        self, index: int, replica: Replica | None = None, appended: AppendResult | None = None
    ) -> None:
        self.index = index
        self.replica = replica
        self.appended = appended
        # Also set if an appended batch was not flushed or not replicated.
        self.error: PeerError | None = None
        # None once it is appended or refused.
        self.unadmitted: Unadmitted | None = None

    @property
    def unacknowledged(self) -> Unacknowledged | None:
        """The append that the response may have to wait for."""
        if self.replica is None or self.appended is None or self.error is not None:
            return None
        return Unacknowledged(self.replica, self.appended)


TopicOutcomes = list[tuple[TopicKey, list[ProduceOutcome]]]


class RequiredAcks(NamedTuple):
    """The acknowledgement that the request requires before its response."""

    acks: int
    timeout_ms: int


def handle(
    request: ProduceRequest, call: Call
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        code = ErrorCode.INVALID_REQUIRED_ACKS
        call.services.metrics.request_refused(API_NAME, code.name)
        return cast(ProduceResponse, call.refuse(request, code))
    services, now_ms = call.services, call.services.now_ms
    answers: TopicOutcomes = []
    for topic in request.topic_data:
        key: TopicKey = topic.topic_id if call.version >= TOPIC_IDS_SINCE else topic.name
        if services.authorizer is not None and not _may_write(key, call.session, services):
            indexes = [each.index for each in topic.partition_data]
            answers.append((key, _unauthorized(indexes, services)))
            continue
        answers.append(
            (key, [_produce(each, key, request, services, now_ms) for each in topic.partition_data])
        )
    return _answer(answers, RequiredAcks(request.acks, request.timeout_ms), services)


def handle_native(
    request: native_produce.Request,
    frame: memoryview,
    session: "Session",
    services: "Services",
) -> bytearray | ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Handles a natively decoded request.

    The response is natively encoded (a bytearray) if all batches were appended at once.
    """
    version, correlation_id, _, acks, timeout_ms, topics = request
    now_ms = services.clock.wall_ms()
    outcomes = []
    answers: TopicOutcomes = []
    is_settled = acks != ACKS_NONE
    for key, batches in topics:
        if services.authorizer is not None and not _may_write(key, session, services):
            is_settled = False
            indexes = [index for index, _, _, _ in batches]
            answers.append((key, _unauthorized(indexes, services)))
            continue
        partitions = []
        for index, begin, end, fields in batches:
            batch = frame[begin:end]
            produced = _append(key, index, batch, make_header(fields), acks, services, now_ms)
            partitions.append(produced)
            appended = produced.appended
            if appended is not None and appended.is_settled:
                outcomes.append((appended.first_offset, appended.start_offset))
            else:
                is_settled = False
        answers.append((key, partitions))
    if is_settled:
        throttle_time_ms = session.quota.throttle_time_ms
        return native_produce.answer(version, correlation_id, topics, outcomes, throttle_time_ms)
    return _answer(answers, RequiredAcks(acks, timeout_ms), services)


def handle_gathered(
    destination: "Destination", requests: "list[GatheredProduce]", services: "Services"
) -> list[bytearray | None] | None:
    """The responses to requests with one batch each for the same partition.

    None, without any effect, unless all of them can be appended at once.
    """
    key, _ = destination
    partitions = services.partitions
    replica = partitions.replicas.by_key.get(destination)
    if replica is None or replica.is_unusable:
        return None
    if services.authorizer is not None and not all(
        _may_write(key, each.connection.session, services) for each in requests
    ):
        return None
    batches = [
        (frame[begin:end], make_header(fields))
        for _, _, frame, _, (_, begin, end, fields) in requests
    ]
    now_ms = services.clock.wall_ms()
    appended = partitions.appender.append_joint(replica, batches, now_ms=now_ms)
    if appended is None:
        return None
    counters = replica.counters or _counters(replica, services)
    counters.produce_requests += len(batches)
    counters.messages_in += appended.record_count
    counters.bytes_in += appended.size_bytes
    start_offset = replica.start_offset
    answers: list[bytearray | None] = []
    for each, offset in zip(requests, appended.first_offsets, strict=True):
        connection, (version, correlation_id, _, acks, _, topics), _, _, _ = each
        if acks == ACKS_NONE:
            answers.append(None)
            continue
        outcomes = [(offset, start_offset)]
        throttle_time_ms = connection.session.quota.throttle_time_ms
        answers.append(
            native_produce.answer(version, correlation_id, topics, outcomes, throttle_time_ms)
        )
    return answers


# Authorization


def _may_write(key: TopicKey, session: "Session", services: "Services") -> bool:
    """True for an unknown topic id, which gets its own error later."""
    name = topic_name(services.image, key)
    return name is None or may(services, session, AclOperation.WRITE, topic_resource(name))


def _unauthorized(indexes: list[int], services: "Services") -> list[ProduceOutcome]:
    return [
        _refused(ProduceOutcome(index), Unauthorized(AclResource.TOPIC), services)
        for index in indexes
    ]


# Appending


def _produce(
    asked: Partition, key: TopicKey, request: ProduceRequest, services: "Services", now_ms: int
) -> ProduceOutcome:
    records = memoryview(asked.records if asked.records is not None else b"")
    is_transactional = request.transactional_id is not None
    return _append(
        key, asked.index, records, None, request.acks, services, now_ms, is_transactional
    )


def _append(
    key: TopicKey,
    index: int,
    records: memoryview,
    header: BatchHeader | None,
    acks: int,
    services: "Services",
    now_ms: int,
    transactional_id_given: bool = False,
) -> ProduceOutcome:
    partitions = services.partitions
    replica = partitions.replicas.by_key.get((key, index))
    if replica is None or replica.is_unusable:
        return _refused(ProduceOutcome(index), _why_not_found(services, key, index), services)
    counters = replica.counters or _counters(replica, services)
    counters.produce_requests += 1
    produced = ProduceOutcome(index, replica)
    try:
        if transactional_id_given:
            _refuse_transactional(records)
        produced.appended = partitions.appender.append(
            replica,
            records,
            acks=acks,
            transactional_id_given=transactional_id_given,
            now_ms=now_ms,
            header=header,
        )
    except BudgetSpent:
        own = memoryview(bytearray(records))
        produced.unadmitted = Unadmitted(replica, own, acks, transactional_id_given)
        return produced
    except PeerError as error:
        return _refused_batch(produced, replica, error, len(records), services)
    _count_in(replica, produced.appended, len(records), services)
    return produced


async def _append_later(produced: ProduceOutcome, services: "Services") -> None:
    """Appends a batch after a thread has admitted it."""
    if produced.unadmitted is None:
        return
    replica, records, acks, transactional_id_given = produced.unadmitted
    appender, now_ms = services.partitions.appender, services.now_ms

    def admit(budget: WorkBudget) -> Admitted:
        return appender.admit(replica, records, transactional_id_given, now_ms, budget)

    produced.unadmitted = None
    try:
        admitted = await services.records.work.run(admit, len(records))
        produced.appended = appender.append(
            replica,
            records,
            acks=acks,
            transactional_id_given=transactional_id_given,
            now_ms=services.now_ms,
            admitted=admitted,
        )
    except PeerError as error:
        _refused_batch(produced, replica, error, len(records), services)
        return
    _count_in(replica, produced.appended, len(records), services)


def _refused_batch(
    produced: ProduceOutcome,
    replica: Replica,
    error: PeerError,
    size_bytes: int,
    services: "Services",
) -> ProduceOutcome:
    counters = replica.counters or _counters(replica, services)
    counters.failed_produce_requests += 1
    counters.bytes_rejected += size_bytes
    return _refused(produced, error, services)


def _count_in(
    replica: Replica, appended: AppendResult, size_bytes: int, services: "Services"
) -> None:
    if appended.record_count:
        counters = replica.counters or _counters(replica, services)
        counters.messages_in += appended.record_count
        counters.bytes_in += size_bytes


def _counters(replica: Replica, services: "Services") -> TopicCounters:
    counters = replica.counters = services.metrics.topic(replica.name.topic)
    return counters


def _why_not_found(services: "Services", key: TopicKey, index: int) -> PeerError:
    try:
        find_replica(services.partitions.replicas, services.image, key, index)
    except PeerError as error:
        return error
    raise RuntimeError(f"partition {index} of {key!r} is there after all")


def _refuse_transactional(records: memoryview) -> None:
    if len(records) >= HEADER_BYTES and read_header(records).is_transactional:
        raise PeerError(ErrorCode.INVALID_PRODUCER_EPOCH, "no such transaction is open")


def _refused(produced: ProduceOutcome, error: PeerError, services: "Services") -> ProduceOutcome:
    # The traceback would keep the stack frames, and the request's bytes with them, until the next
    # garbage collection.
    error.__traceback__ = error.__context__ = error.__cause__ = None
    produced.error = error
    services.metrics.request_refused(API_NAME, error.code.name)
    return produced


# Waiting


def _must_wait(produced: ProduceOutcome, acks: int) -> bool:
    """Whether the response has to wait for a thread, a flush, or other replicas."""
    if produced.unadmitted is not None:
        return True
    append = produced.unacknowledged
    if append is None:
        return False
    return _must_flush(append.replica) or (acks == ACKS_ALL and not is_committed(append))


def _must_flush(replica: Replica) -> bool:
    log = replica.log
    return log is not None and log.messages_unflushed >= log.flush_messages


async def _answer_later(
    answers: TopicOutcomes, required: RequiredAcks, services: "Services"
) -> ProduceResponse | None:
    for produced in _all(answers):
        await _append_later(produced, services)
    if required.acks == ACKS_NONE:
        return None
    await asyncio.gather(*(_flush(produced, services) for produced in _all(answers)))
    if required.acks == ACKS_ALL:
        await _acknowledge(answers, required.timeout_ms, services)
    return _response(answers)


async def _flush(produced: ProduceOutcome, services: "Services") -> None:
    append = produced.unacknowledged
    if append is None or append.replica.log is None or not _must_flush(append.replica):
        return
    flusher = services.partitions.flusher
    try:
        await flusher.flush(append.replica.log, append.appended.committed_offset)
    except (StorageError, OSError) as error:
        _refused(produced, PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)), services)


async def _acknowledge(answers: TopicOutcomes, timeout_ms: int, services: "Services") -> None:
    waiting = [
        (produced, append)
        for produced in _all(answers)
        if (append := produced.unacknowledged) is not None
    ]
    errors = await until_committed([append for _, append in waiting], timeout_ms)
    for (produced, _), error in zip(waiting, errors, strict=True):
        if error is not None:
            _refused(produced, error, services)


# Answering


def _answer(
    answers: TopicOutcomes, required: RequiredAcks, services: "Services"
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if required.acks == ACKS_NONE and not any(each.unadmitted for each in _all(answers)):
        return None
    if any(_must_wait(produced, required.acks) for produced in _all(answers)):
        return _answer_later(answers, required, services)
    return _response(answers)


def _all(answers: TopicOutcomes) -> Iterator[ProduceOutcome]:
    for _, partitions in answers:
        yield from partitions


def _response(answers: TopicOutcomes) -> ProduceResponse:
    return ProduceResponse(
        responses=tuple(
            TopicResult(
                name=key if isinstance(key, str) else "",
                topic_id=ZERO_UUID if isinstance(key, str) else Uuid(key),
                partition_responses=tuple(map(_result, partitions)),
            )
            for key, partitions in answers
        )
    )


def _result(produced: ProduceOutcome) -> PartitionResult:
    code = ErrorCode.NONE if produced.error is None else produced.error.code
    appended = produced.appended
    if appended is not None:
        return PartitionResult(
            index=produced.index,
            error_code=code,
            base_offset=appended.first_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.start_offset,
        )
    error = produced.error
    if not isinstance(error, RefusedByLog):
        message = str(error) if isinstance(error, Refused) and error.is_told else None
        return PartitionResult(
            index=produced.index, error_code=code, base_offset=-1, error_message=message
        )
    record_errors = tuple(
        RecordError(batch_index=fault.number, batch_index_error_message=fault.reason)
        for fault in error.record_faults
    )
    return PartitionResult(
        index=produced.index,
        error_code=code,
        base_offset=-1,
        log_start_offset=error.start_offset,
        record_errors=record_errors,
        error_message=str(error) if record_errors else None,
    )
