"""Produce (0) v3-13. Batches are appended unchanged; acks 0, 1 and all; idempotent and
transactional producers. v12 adds partitions to transactions (KIP-890). Answers wait for a flush if
`flush.messages` asks for it. v10 names the current leader (KIP-951). Gaps: none.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, cast

from ottla.broker.requests.authorization import (
    Unauthorized,
    may,
    topic_resource,
    transactional_id_resource,
)
from ottla.broker.requests.call import Call
from ottla.broker.requests.produce_appends import append_batch, append_waiting, counters_of
from ottla.broker.requests.produce_outcomes import (
    API_NAME,
    ProduceOutcome,
    ProduceTerms,
    TopicOutcomes,
    every,
    refused,
    refused_topics,
    response,
)
from ottla.broker.requests.transaction_verification import ProduceTransaction
from ottla.broker.requests.uncommitted_produce import (
    UncommittedBatch,
    UncommittedProduce,
    begin_wait,
)
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.metadata.values import AclOperation, AclResource
from ottla.native import produce as native_produce
from ottla.protocol.batch import HEADER_BYTES, BatchHeader, make_header, read_header
from ottla.protocol.messages.produce import Partition, ProduceRequest, ProduceResponse
from ottla.protocol.primitives import NO_TIMESTAMP
from ottla.replication.append.acknowledgement import CommitWait, Unacknowledged
from ottla.replication.append.appender import ACKS_ALL, ACKS_LEADER, ACKS_NONE, AppendResult
from ottla.replication.lookup import TopicKey, topic_name
from ottla.replication.replica import Replica

if TYPE_CHECKING:
    from ottla.broker.net.session import Session
    from ottla.broker.requests.produce_fast_path import Destination, GatheredProduce
    from ottla.broker.requests.services import Services

TOPIC_IDS_SINCE = 13

# The response, None if there is none, or what it has to wait for.
Answer = ProduceResponse | UncommittedProduce | Awaitable[ProduceResponse | None] | None


def handle(
    request: ProduceRequest, call: Call
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        code = ErrorCode.INVALID_REQUIRED_ACKS
        call.services.metrics.request_refused(API_NAME, code.name)
        return cast(ProduceResponse, call.refuse(request, code))
    answer = _handle(request, call)
    if isinstance(answer, UncommittedProduce):
        return _replicated(answer, call.version, call.session, call.services)
    return answer


def _handle(request: ProduceRequest, call: Call) -> Answer:
    services, now_ms = call.services, call.services.now_ms
    transaction = _transaction(request.transactional_id, call.version)
    terms = ProduceTerms(request.acks, request.timeout_ms, transaction, call.version, call.session)
    by_key = [
        (topic.topic_id if call.version >= TOPIC_IDS_SINCE else topic.name, topic.partition_data)
        for topic in request.topic_data
    ]
    if transaction is not None:
        headers = (_header(each) for _, partitions in by_key for each in partitions)
        error = _transaction_error(transaction, headers, call.session, services)
        if error is not None:
            indexes = [(key, [each.index for each in each_of]) for key, each_of in by_key]
            return _answer(refused_topics(indexes, error, services), terms, services)
    answers: TopicOutcomes = []
    for key, partitions in by_key:
        if services.authorizer is not None and not _may_write(key, call.session, services):
            indexes = [(key, [each.index for each in partitions])]
            answers += refused_topics(indexes, Unauthorized(AclResource.TOPIC), services)
            continue
        answers.append((key, [_produce(each, key, terms, services, now_ms) for each in partitions]))
    return _answer(answers, terms, services)


def handle_native(
    request: native_produce.Request,
    frame: memoryview,
    session: "Session",
    services: "Services",
) -> bytearray | Answer:
    """Handles a natively decoded request.

    The response is natively encoded (a bytearray) if all batches were appended at once.
    """
    version, correlation_id, _, acks, timeout_ms, topics, transactional_id = request
    transaction = None
    if transactional_id is not None:
        transaction = ProduceTransaction(transactional_id, version)
        headers = (make_header(fields) for _, batches in topics for _, _, _, fields in batches)
        error = _transaction_error(transaction, headers, session, services)
        if error is not None:
            terms = ProduceTerms(acks, timeout_ms, transaction, version, session)
            return _answer(refused_topics(_indexes(topics), error, services), terms, services)
    now_ms = services.clock.wall_ms()
    outcomes = []
    answers: TopicOutcomes = []
    is_settled = acks != ACKS_NONE
    for key, batches in topics:
        if services.authorizer is not None and not _may_write(key, session, services):
            is_settled = False
            indexes = _indexes([(key, batches)])
            answers += refused_topics(indexes, Unauthorized(AclResource.TOPIC), services)
            continue
        partitions = []
        for index, begin, end, fields in batches:
            batch = frame[begin:end]
            produced = append_batch(
                key, index, batch, make_header(fields), acks, transaction, services, now_ms
            )
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
    terms = ProduceTerms(acks, timeout_ms, transaction, version, session)
    return _answer(answers, terms, services)


def handle_gathered(
    destination: "Destination", requests: "list[GatheredProduce]", services: "Services"
) -> tuple[list[bytearray | None], dict[int, UncommittedProduce]] | None:
    """The responses to requests with one batch each for the same partition.

    The second item has the requests that wait for other replicas, by their position. None, without
    any effect, unless all of them can be appended at once.
    """
    key, _ = destination
    partitions = services.partitions
    replica = partitions.replicas.by_key.get(destination)
    if replica is None or replica.is_unusable:
        return None
    if services.authorizer is not None and not all(
        _may_produce_gathered(key, each, services) for each in requests
    ):
        return None
    batches = [
        (frame[begin:end], make_header(fields))
        for _, _, frame, _, (_, begin, end, fields) in requests
    ]
    now_ms = services.clock.wall_ms()
    appended = partitions.appender.append_together(replica, batches, now_ms=now_ms)
    if appended is None:
        return None
    counters = replica.counters or counters_of(replica, services)
    counters.produce_requests += len(batches)
    counters.messages_in += appended.record_count
    counters.bytes_in += appended.size_bytes
    start_offset = replica.start_offset
    partition = replica.partition
    is_committed = partition.high_watermark >= partition.end_offset
    waits = None if is_committed else _GatheredWaits(replica, key, appended.first_offsets[0])
    answers: list[bytearray | None] = []
    uncommitted: dict[int, UncommittedProduce] = {}
    for each, offset in zip(requests, appended.first_offsets, strict=True):
        connection, (version, correlation_id, _, acks, timeout_ms, topics, _), _, _, batch = each
        if acks == ACKS_NONE:
            answers.append(None)
        elif waits is not None and acks == ACKS_ALL:
            uncommitted[len(answers)] = waits.begin(batch[0], offset, timeout_ms)
            answers.append(None)
        else:
            outcomes = [(offset, start_offset)]
            throttle_time_ms = connection.session.quota.throttle_time_ms
            answers.append(
                native_produce.answer(version, correlation_id, topics, outcomes, throttle_time_ms)
            )
    return answers, uncommitted


class _GatheredWaits:
    """The waits of requests that were appended to a partition together.

    Those with the same timeout share one: followers fetch the batches together as well.
    """

    __slots__ = ("_by_timeout_ms", "_joint", "_key")

    def __init__(self, replica: Replica, key: TopicKey, first_offset: int) -> None:
        appended = AppendResult(
            first_offset=first_offset,
            committed_offset=replica.end_offset,
            log_append_time_ms=NO_TIMESTAMP,
            start_offset=replica.start_offset,
            leader_epoch=replica.partition.leader_epoch,
            record_count=0,
            is_settled=False,
        )
        self._joint = Unacknowledged(replica, appended)
        self._key = key
        self._by_timeout_ms: dict[int, CommitWait] = {}

    def begin(self, index: int, first_offset: int, timeout_ms: int) -> UncommittedProduce:
        wait = self._by_timeout_ms.get(timeout_ms)
        if wait is None:
            wait = self._by_timeout_ms[timeout_ms] = CommitWait([self._joint], timeout_ms)
        else:
            wait.sharing += 1
        return UncommittedBatch(self._key, index, first_offset, self._joint, wait)


# Authorization


def _may_write(key: TopicKey, session: "Session", services: "Services") -> bool:
    """True for an unknown topic id, which gets its own error later."""
    name = topic_name(services.image, key)
    return name is None or may(services, session, AclOperation.WRITE, topic_resource(name))


def _may_produce_gathered(key: TopicKey, gathered: "GatheredProduce", services: "Services") -> bool:
    session, transactional_id = gathered.connection.session, gathered.request[6]
    if not _may_write(key, session, services):
        return False
    # Of a plain batch in such a request too, which is then handled alone.
    return transactional_id is None or _may_write_in(transactional_id, session, services)


def _may_write_in(transactional_id: str, session: "Session", services: "Services") -> bool:
    resource = transactional_id_resource(transactional_id)
    return may(services, session, AclOperation.WRITE, resource)


def _transaction_error(
    transaction: ProduceTransaction,
    headers: Iterable[BatchHeader | None],
    session: "Session",
    services: "Services",
) -> PeerError | None:
    """The reason to refuse the whole request, if there is one."""
    producers = {
        (header.producer_id, header.producer_epoch)
        for header in headers
        if header is not None and header.is_transactional and header.has_producer
    }
    if not producers:
        return None
    if not _may_write_in(transaction.transactional_id, session, services):
        return Unauthorized(AclResource.TRANSACTIONAL_ID)
    if len(producers) > 1:
        return PeerError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactional batches of several producers"
        )
    return None


def _indexes(topics: list[native_produce.Topic]) -> list[tuple[TopicKey, list[int]]]:
    return [(key, [index for index, _, _, _ in batches]) for key, batches in topics]


# Parts


def _transaction(transactional_id: str | None, version: int) -> ProduceTransaction | None:
    return None if transactional_id is None else ProduceTransaction(transactional_id, version)


def _header(asked: Partition) -> BatchHeader | None:
    """The header of a batch, if there are enough bytes for one."""
    records = asked.records
    return None if records is None or len(records) < HEADER_BYTES else read_header(records)


def _produce(
    asked: Partition, key: TopicKey, terms: ProduceTerms, services: "Services", now_ms: int
) -> ProduceOutcome:
    records = memoryview(asked.records if asked.records is not None else b"")
    acks, transaction = terms.acks, terms.transaction
    header = None if transaction is None else _header(asked)
    return append_batch(key, asked.index, records, header, acks, transaction, services, now_ms)


# Waiting


def _must_work(produced: ProduceOutcome) -> bool:
    """Whether the response has to wait for a coordinator, a thread or a flush."""
    if produced.unadmitted is not None or produced.unverified is not None:
        return True
    return _is_unflushed(produced)


def _must_flush(replica: Replica) -> bool:
    log = replica.log
    return log is not None and log.messages_unflushed >= log.flush_messages


async def _answer_later(
    answers: TopicOutcomes, terms: ProduceTerms, services: "Services"
) -> ProduceResponse | None:
    await append_waiting(answers, terms, services)
    if terms.acks == ACKS_NONE:
        return None
    unflushed = [each for each in every(answers) if _is_unflushed(each)]
    if unflushed:
        await asyncio.gather(*(_flush(produced, services) for produced in unflushed))
    if terms.acks == ACKS_ALL:
        uncommitted = begin_wait(answers, terms.timeout_ms)
        return await _replicated(uncommitted, terms.version, terms.session, services)
    return response(answers, terms.version, terms.session, services)


async def _replicated(
    uncommitted: UncommittedProduce, version: int, session: "Session", services: "Services"
) -> ProduceResponse:
    try:
        await uncommitted.wait.future
    finally:
        uncommitted.wait.cancel()
    return response(uncommitted.settled(services), version, session, services)


def _is_unflushed(produced: ProduceOutcome) -> bool:
    append = produced.unacknowledged
    return append is not None and _must_flush(append.replica)


async def _flush(produced: ProduceOutcome, services: "Services") -> None:
    append = produced.unacknowledged
    if append is None or append.replica.log is None:
        return
    flusher = services.partitions.flusher
    try:
        await flusher.flush(append.replica.log, append.appended.committed_offset)
    except (StorageError, OSError) as error:
        refused(produced, PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)), services)


# Answering


def _answer(answers: TopicOutcomes, terms: ProduceTerms, services: "Services") -> Answer:
    if terms.acks == ACKS_NONE and not any(
        each.unadmitted or each.unverified for each in every(answers)
    ):
        return None
    if any(_must_work(produced) for produced in every(answers)):
        return _answer_later(answers, terms, services)
    if terms.acks == ACKS_ALL:
        uncommitted = begin_wait(answers, terms.timeout_ms)
        if not uncommitted.wait.future.done():
            return uncommitted
        uncommitted.settled(services)
    return response(answers, terms.version, terms.session, services)
