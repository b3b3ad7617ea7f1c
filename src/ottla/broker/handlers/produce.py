"""Produce (0) v3-13. Batches are appended as they came; acks 0, 1 and all; idempotent producers;
answers wait for a flush where `flush.messages` asks for it. Gaps: transactional batches are refused
with INVALID_PRODUCER_EPOCH, as Kafka refuses those of a transaction that is not known; an answer
does not say who leads instead (KIP-951).
"""

import asyncio
from collections.abc import Awaitable, Iterator
from typing import cast

from ottla.broker.call import Call
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.batch import HEADER_BYTES, read_header
from ottla.protocol.messages.produce import (
    Partition,
    PartitionResult,
    ProduceRequest,
    ProduceResponse,
    RecordError,
    Topic,
    TopicResult,
)
from ottla.replication.acknowledged import Unacknowledged, is_committed, until_committed
from ottla.replication.appends import ACKS_ALL, RefusedByLog
from ottla.replication.lookup import TopicKey, find_replica

ACKS_NONE = 0
ACKS_LEADER = 1
TOPIC_IDS_SINCE = 13


class Produced:
    """What became of one partition's batch, up to the answer."""

    __slots__ = ("append", "error", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.append: Unacknowledged | None = None
        # Perhaps of a batch that was appended, and then not flushed or not replicated.
        self.error: PeerError | None = None


Answers = list[tuple[Topic, list[Produced]]]


def handle(
    request: ProduceRequest, call: Call
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        code = ErrorCode.INVALID_REQUIRED_ACKS
        call.services.metrics.request_refused(call.api.name, code.name)
        return cast(ProduceResponse, call.refuse(request, code))
    now_ms = call.services.now_ms
    answers = [
        (topic, [_append(topic, each, request, call, now_ms) for each in topic.partition_data])
        for topic in request.topic_data
    ]
    if request.acks == ACKS_NONE:
        return None
    if any(_must_wait(produced, request.acks) for produced in _all(answers)):
        return _answer_later(answers, request, call)
    return _response(answers)


def _append(
    topic: Topic, asked: Partition, request: ProduceRequest, call: Call, now_ms: int
) -> Produced:
    services = call.services
    produced = Produced(asked.index)
    records = memoryview(asked.records if asked.records is not None else b"")
    key: TopicKey = topic.topic_id if call.version >= TOPIC_IDS_SINCE else topic.name
    try:
        replica = find_replica(services.replicas, services.image, key, asked.index)
    except PeerError as error:
        _refused(produced, error, call)
        return produced
    counters = services.metrics.topic(replica.name.topic)
    counters.produce_requests += 1
    try:
        if request.transactional_id is not None:
            _refuse_transactional(records)
        appended = services.appender.append(
            replica,
            records,
            acks=request.acks,
            transactional_id_given=request.transactional_id is not None,
            now_ms=now_ms,
        )
    except PeerError as error:
        counters.failed_produce_requests += 1
        counters.bytes_rejected += len(records)
        _refused(produced, error, call)
        return produced
    if appended.record_count:
        counters.messages_in += appended.record_count
        counters.bytes_in += len(records)
    produced.append = Unacknowledged(replica, appended)
    return produced


def _refuse_transactional(records: memoryview) -> None:
    if len(records) >= HEADER_BYTES and read_header(records).is_transactional:
        raise PeerError(ErrorCode.INVALID_PRODUCER_EPOCH, "no such transaction is open")


def _refused(produced: Produced, error: PeerError, call: Call) -> None:
    produced.error = error
    call.services.metrics.request_refused(call.api.name, error.code.name)


# Waiting


def _must_wait(produced: Produced, acks: int) -> bool:
    """Whether the answer depends on a disk, or on other brokers."""
    append = produced.append
    if append is None:
        return False
    return _must_flush(append) or (acks == ACKS_ALL and not is_committed(append))


def _must_flush(append: Unacknowledged) -> bool:
    log = append.replica.log
    return log is not None and log.messages_unflushed >= log.config.flush_messages


async def _answer_later(answers: Answers, request: ProduceRequest, call: Call) -> ProduceResponse:
    await asyncio.gather(*(_flush(produced, call) for produced in _all(answers)))
    if request.acks == ACKS_ALL:
        await _acknowledge(answers, request.timeout_ms, call)
    return _response(answers)


async def _flush(produced: Produced, call: Call) -> None:
    append = produced.append
    if append is None or not _must_flush(append) or append.replica.log is None:
        return
    try:
        await call.services.flusher.flush(append.replica.log, append.appended.committed_offset)
    except (StorageError, OSError) as error:
        _refused(produced, PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)), call)


async def _acknowledge(answers: Answers, timeout_ms: int, call: Call) -> None:
    waiting = [
        (produced, produced.append)
        for produced in _all(answers)
        if produced.append is not None and produced.error is None
    ]
    errors = await until_committed([append for _, append in waiting], timeout_ms)
    for (produced, _), error in zip(waiting, errors, strict=True):
        if error is not None:
            _refused(produced, error, call)


# Answering


def _all(answers: Answers) -> Iterator[Produced]:
    for _, partitions in answers:
        yield from partitions


def _response(answers: Answers) -> ProduceResponse:
    return ProduceResponse(
        responses=tuple(
            TopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(map(_result, partitions)),
            )
            for topic, partitions in answers
        )
    )


def _result(produced: Produced) -> PartitionResult:
    code = ErrorCode.NONE if produced.error is None else produced.error.code
    if produced.append is not None:
        appended = produced.append.appended
        return PartitionResult(
            index=produced.index,
            error_code=code,
            base_offset=appended.first_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.start_offset,
        )
    error = produced.error
    if not isinstance(error, RefusedByLog):
        message = str(error) if code is ErrorCode.CORRUPT_MESSAGE else None
        return PartitionResult(
            index=produced.index, error_code=code, base_offset=-1, error_message=message
        )
    record_errors: tuple[RecordError, ...] = ()
    if error.record_index is not None:
        record_errors = (
            RecordError(batch_index=error.record_index, batch_index_error_message=str(error)),
        )
    return PartitionResult(
        index=produced.index,
        error_code=code,
        base_offset=-1,
        log_start_offset=error.start_offset,
        record_errors=record_errors,
        error_message=str(error) if record_errors else None,
    )
