"""Fetch (1) v4-18. Long polling that wakes on append, fetch sessions (KIP-227), isolation levels,
diverging epochs (KIP-595); records are sent as slices of the log files. Followers are served on the
inter-broker listener. v11 sends consumers to a replica in their rack (KIP-392), v16 names the
current leader (KIP-951). Gaps: none.
"""

from collections.abc import Awaitable
from itertools import groupby

from ottla.broker.requests.authorization import CLUSTER, Unauthorized, topic_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.current_leaders import CurrentLeaders
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.values import Incarnation
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchRequest,
    FetchResponse,
    Leader,
    NodeEndpoint,
    PartitionResult,
    TopicResult,
    refused_partition,
)
from ottla.protocol.primitives import NO_OFFSET, Uuid
from ottla.replication.fetch.fetch import (
    NO_SESSION,
    Answer,
    Context,
    Fetch,
    FetchLimits,
    Find,
    ItemRead,
    Reading,
)
from ottla.replication.fetch.reads import ReadResult
from ottla.replication.fetch.replica_selection import ReplicaSelection
from ottla.replication.lookup import TopicKey, UnknownPartition, find_replica, topic_name
from ottla.replication.replica import Replica
from ottla.settings.table.network import FETCH_MAX_BYTES
from ottla.settings.table.replicas import REPLICA_SELECTOR_CLASS, ReplicaSelectorClass

RACKS_SINCE = 11
TOPIC_IDS_SINCE = 13
CURRENT_LEADER_SINCE = 16


def handle(request: FetchRequest, call: Call) -> FetchResponse | Awaitable[FetchResponse]:
    services, partitions = call.services, call.services.partitions
    follower = _follower(request, call)
    bytes_max = min(services.settings[FETCH_MAX_BYTES], call.session.quota.response_bytes_max)
    limits = _limits_of(request, bytes_max, follower)
    if follower is not None:
        limits = limits._replace(throttle=partitions.throttles.leader)
    if follower is None and call.version >= RACKS_SINCE:
        limits = _with_selection(limits, request, call)
    uses_ids = call.version >= TOPIC_IDS_SINCE
    try:
        if follower is None:
            sessions = partitions.fetch_sessions
            context = sessions.open(request, limits.isolation, uses_ids=uses_ids)
        else:
            followers = partitions.follower_sessions
            context = followers.open(request, follower, uses_ids=uses_ids)
    except PeerError as error:
        call.count_refusal(error.code)
        return FetchResponse(error_code=error.code, session_id=NO_SESSION, responses=())
    find = _finder(call, is_follower=follower is not None)
    fetch = Fetch(context, limits, find, partitions.cold_reads)
    reading = fetch.read()
    if reading.cold:
        return _answer_cold(fetch, reading, request.max_wait_ms, context, call)
    if fetch.is_enough(reading) or request.max_wait_ms <= 0:
        return _response(fetch, context, reading, call)
    return _answer_later(fetch, fetch.read_later(request.max_wait_ms, reading), context, call)


def _finder(call: Call, *, is_follower: bool) -> Find:
    services = call.services

    def find(topic: TopicKey, index: int) -> Replica:
        return find_replica(services.partitions.replicas, services.image, topic, index)

    def find_allowed(topic: TopicKey, index: int) -> Replica:
        name = topic_name(services.image, topic)
        if name is not None:
            call.require(topic_resource(name))
        return find(topic, index)

    return find if services.authorizer is None or is_follower else find_allowed


async def _answer_cold(
    fetch: Fetch, reading: Reading, wait_ms: int, context: Context, call: Call
) -> FetchResponse:
    reading = await fetch.read_cold(reading)
    if not fetch.is_enough(reading) and wait_ms > 0:
        reading = await fetch.read_later(wait_ms, reading)
    return _response(fetch, context, reading, call)


async def _answer_later(
    fetch: Fetch, coming: Awaitable[Reading], context: Context, call: Call
) -> FetchResponse:
    return _response(fetch, context, await coming, call)


def _follower(request: FetchRequest, call: Call) -> Incarnation | None:
    """The broker that fetches as a follower; None for a consumer.

    Brokers are believed on their own listener only, and only under the epoch that the metadata
    has: any other progress would move the high watermark past records that nobody else has.
    """
    state = request.replica_state
    replica_id = request.replica_id if state is None else state.replica_id
    if replica_id < 0:
        return None
    call.require(CLUSTER)
    if call.session.listener != call.services.identity.inter_broker_listener:
        raise PeerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "nothing is replicated from here")
    broker = call.services.image.brokers.get(replica_id)
    if state is None or broker is None or not broker.is_live or broker.epoch != state.replica_epoch:
        raise PeerError(
            ErrorCode.STALE_BROKER_EPOCH, f"broker {replica_id} is not registered with this epoch"
        )
    return broker.incarnation


def _limits_of(request: FetchRequest, bytes_max: int, follower: Incarnation | None) -> FetchLimits:
    try:
        isolation = Isolation(request.isolation_level)
    except ValueError:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"isolation level {request.isolation_level}"
        ) from None
    bytes_max = max(0, min(request.max_bytes, bytes_max))
    return FetchLimits(min(request.min_bytes, bytes_max), bytes_max, isolation, follower)


def _with_selection(limits: FetchLimits, request: FetchRequest, call: Call) -> FetchLimits:
    """The limits of a consumer that may be served by a replica in its rack."""
    services = call.services
    if services.settings[REPLICA_SELECTOR_CLASS] is not ReplicaSelectorClass.RACK_AWARE:
        return limits
    selection = None
    if request.rack_id:
        selection = ReplicaSelection(
            lambda: services.image.brokers, request.rack_id, call.session.listener
        )
    return limits._replace(selection=selection, may_follow=True)


# Answering


def _response(fetch: Fetch, context: Context, reading: Reading, call: Call) -> FetchResponse:
    answer = context.answer(reading)
    return response_of(answer, fetch.follower, call, is_urgent=reading.is_urgent)


def response_of(
    answer: Answer, follower: Incarnation | None, call: Call, *, is_urgent: bool
) -> FetchResponse:
    """The response to a follower, or to a consumer."""
    leaders = None
    if is_urgent and call.version >= CURRENT_LEADER_SINCE:
        # Some partition may have moved.
        leaders = CurrentLeaders(call.services, call.session)
    responses = tuple(
        _topic_result(topic, list(reads), call, follower, leaders)
        for topic, reads in groupby(answer.reads, key=lambda read: read.item.topic)
    )
    named = () if leaders is None else leaders.brokers
    return FetchResponse(
        session_id=answer.session_id,
        responses=responses,
        node_endpoints=tuple(
            NodeEndpoint(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
            for each in named
        ),
    )


def _topic_result(
    topic: TopicKey,
    reads: list[ItemRead],
    call: Call,
    follower: Incarnation | None,
    leaders: CurrentLeaders | None,
) -> TopicResult:
    if follower is None:
        _count(reads, call)
    else:
        call.services.metrics.broker.replication_bytes_out += _size(reads)
    partitions = tuple([_partition_result(read, follower, leaders) for read in reads])
    if isinstance(topic, str):
        return TopicResult(topic=topic, partitions=partitions)
    return TopicResult(topic_id=Uuid(topic), partitions=partitions)


def _start_for_follower(read: ItemRead, follower: Incarnation | None) -> int:
    """Where a follower that is behind the log start continues."""
    replica = read.item.replica
    return NO_OFFSET if follower is None or replica is None else replica.start_offset


def _current_leader(
    read: ItemRead, error: PeerError, leaders: CurrentLeaders | None
) -> Leader | None:
    if leaders is None:
        return None
    leader = leaders.find(read.item.topic, read.item.asked.partition, error.code)
    return None if leader is None else Leader(leader_id=leader[0], leader_epoch=leader[1])


def _partition_result(
    read: ItemRead, follower: Incarnation | None, leaders: CurrentLeaders | None
) -> PartitionResult:
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
        log_start_offset=_start_for_follower(read, follower),
        current_leader=_current_leader(read, outcome, leaders),
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
        preferred_read_replica=result.preferred_read_replica,
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
    counters.bytes_out += _size(reads)


def _size(reads: list[ItemRead]) -> int:
    """The size of the records."""
    return sum([read.outcome.size for read in reads if not isinstance(read.outcome, PeerError)])
