"""Fetch (1) v4-18. Long polling that wakes on append, fetch sessions (KIP-227), isolation levels,
diverging epochs (KIP-595); records are sent as slices of the log files. Gaps: followers are not
served; an answer does not name the current leader (KIP-951).
"""

from collections.abc import Awaitable
from itertools import groupby

from ottla.broker.requests.authorization import Unauthorized, topic_resource
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchRequest,
    FetchResponse,
    PartitionResult,
    TopicResult,
    refused_partition,
)
from ottla.protocol.primitives import Uuid
from ottla.replication.fetch.fetch import (
    NO_SESSION,
    Context,
    Fetch,
    FetchLimits,
    Find,
    ItemRead,
    Reading,
)
from ottla.replication.fetch.reads import ReadResult
from ottla.replication.lookup import TopicKey, UnknownPartition, find_replica, topic_name
from ottla.replication.replica import Replica
from ottla.settings.table.network import FETCH_MAX_BYTES

TOPIC_IDS_SINCE = 13


def handle(request: FetchRequest, call: Call) -> FetchResponse | Awaitable[FetchResponse]:
    _require_consumer(request)
    services, partitions = call.services, call.services.partitions
    bytes_max = min(services.settings[FETCH_MAX_BYTES], call.session.quota.response_bytes_max)
    limits = _limits_of(request, bytes_max)
    try:
        context = partitions.fetch_sessions.open(
            request, limits.isolation, uses_ids=call.version >= TOPIC_IDS_SINCE
        )
    except PeerError as error:
        call.count_refusal(error.code)
        return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=())
    fetch = Fetch(context, limits, _finder(call), services.partitions.cold_reads)
    reading = fetch.read()
    if reading.cold:
        return _answer_cold(fetch, reading, request.max_wait_ms, context, call)
    if fetch.is_enough(reading) or request.max_wait_ms <= 0:
        return _response(context, reading, call)
    return _answer_later(fetch.read_later(request.max_wait_ms, reading), context, call)


def _finder(call: Call) -> Find:
    services = call.services

    def find(topic: TopicKey, index: int) -> Replica:
        return find_replica(services.partitions.replicas, services.image, topic, index)

    def find_allowed(topic: TopicKey, index: int) -> Replica:
        name = topic_name(services.image, topic)
        if name is not None:
            call.require(topic_resource(name))
        return find(topic, index)

    return find if services.authorizer is None else find_allowed


async def _answer_cold(
    fetch: Fetch, reading: Reading, wait_ms: int, context: Context, call: Call
) -> FetchResponse:
    reading = await fetch.read_cold(reading)
    if not fetch.is_enough(reading) and wait_ms > 0:
        reading = await fetch.read_later(wait_ms, reading)
    return _response(context, reading, call)


async def _answer_later(coming: Awaitable[Reading], context: Context, call: Call) -> FetchResponse:
    return _response(context, await coming, call)


def _require_consumer(request: FetchRequest) -> None:
    replica_id = request.replica_state.replica_id if request.replica_state else request.replica_id
    if replica_id >= 0:
        raise PeerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "nothing is replicated from here")


def _limits_of(request: FetchRequest, bytes_max: int) -> FetchLimits:
    try:
        isolation = Isolation(request.isolation_level)
    except ValueError:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"isolation level {request.isolation_level}"
        ) from None
    bytes_max = max(0, min(request.max_bytes, bytes_max))
    return FetchLimits(min(request.min_bytes, bytes_max), bytes_max, isolation)


# Answering


def _response(context: Context, reading: Reading, call: Call) -> FetchResponse:
    answer = context.answer(reading)
    return FetchResponse(
        session_id=answer.session_id,
        responses=tuple(
            _topic_result(topic, list(reads), call)
            for topic, reads in groupby(answer.reads, key=lambda read: read.item.topic)
        ),
    )


def _topic_result(topic: TopicKey, reads: list[ItemRead], call: Call) -> TopicResult:
    _count(reads, call)
    partitions = tuple([_partition_result(read) for read in reads])
    if isinstance(topic, str):
        return TopicResult(topic=topic, partitions=partitions)
    return TopicResult(topic_id=Uuid(topic), partitions=partitions)


def _partition_result(read: ItemRead) -> PartitionResult:
    index, outcome = read.item.asked.partition, read.outcome
    if not isinstance(outcome, PeerError):
        return _result(index, outcome)
    if isinstance(outcome, UnknownPartition | Unauthorized):
        return refused_partition(index, outcome.code)
    # As in Kafka: null if the replica exists, empty if it does not.
    return PartitionResult(
        partition_index=index,
        error_code=outcome.code,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )


def _result(index: int, result: ReadResult) -> PartitionResult:
    aborted = None
    if result.aborted is not None:
        aborted = tuple(
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in result.aborted
        )
    diverging = None
    if result.diverging is not None:
        diverging = DivergingEpoch(
            epoch=result.diverging.epoch, end_offset=result.diverging.end_offset
        )
    return PartitionResult(
        partition_index=index,
        error_code=ErrorCode.NONE,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.start_offset,
        diverging_epoch=diverging,
        aborted_transactions=aborted,
        records=result.records if result.records is not None else b"",
    )


def _count(reads: list[ItemRead], call: Call) -> None:
    """Updates the metrics of one topic."""
    metrics = call.services.metrics
    errors = [read.outcome for read in reads if isinstance(read.outcome, PeerError)]
    for error in errors:
        call.count_refusal(error.code)
    replica = next((read.item.replica for read in reads if read.item.replica is not None), None)
    if replica is None:
        return
    counters = metrics.topic(replica.name.topic)
    counters.fetch_requests += len(reads)
    counters.failed_fetch_requests += len(errors)
    counters.bytes_out += sum(
        [read.outcome.size for read in reads if not isinstance(read.outcome, PeerError)]
    )
