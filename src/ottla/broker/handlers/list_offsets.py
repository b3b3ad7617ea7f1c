"""ListOffsets (2) v1-11. First and last offsets, and offsets by time; -4 is the earliest offset, -5
and -6 find nothing, as nothing is tiered. Gaps: none.
"""

from collections import Counter

from ottla.broker.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    Partition,
    PartitionResult,
    Topic,
    TopicResult,
)
from ottla.replication.lookup import find_replica
from ottla.replication.offsets import SpecialTime, offset_at
from ottla.replication.reads import Isolation

CONSUMER = -1
FIRST_VERSION_OF: dict[int, int] = {
    SpecialTime.LATEST: 1,
    SpecialTime.EARLIEST: 1,
    SpecialTime.LARGEST_TIMESTAMP: 7,
    SpecialTime.EARLIEST_LOCAL: 8,
    SpecialTime.LATEST_TIERED: 9,
    SpecialTime.EARLIEST_PENDING_UPLOAD: 11,
}
# Older clients know another name for it.
OFFSET_NOT_AVAILABLE_SINCE = 5


def handle(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    isolation = _isolation_of(request)
    times_asked = Counter(
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    )
    return ListOffsetsResponse(
        topics=tuple(
            TopicResult(name=topic.name, partitions=_answers(topic, times_asked, isolation, call))
            for topic in request.topics
        )
    )


def _isolation_of(request: ListOffsetsRequest) -> Isolation | None:
    """Whoever is no consumer reads all that is in the log."""
    try:
        isolation = Isolation(request.isolation_level)
    except ValueError:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"isolation level {request.isolation_level}"
        ) from None
    return isolation if request.replica_id == CONSUMER else None


def _answers(
    topic: Topic, times_asked: Counter[tuple[str, int]], isolation: Isolation | None, call: Call
) -> tuple[PartitionResult, ...]:
    # A partition that was asked for twice is answered once.
    distinct = {asked.partition_index: asked for asked in topic.partitions}
    return tuple(
        _refusal(index, ErrorCode.INVALID_REQUEST, call)
        if times_asked[topic.name, index] > 1
        else _answer(topic.name, asked, isolation, call)
        for index, asked in distinct.items()
    )


def _answer(
    topic: str, asked: Partition, isolation: Isolation | None, call: Call
) -> PartitionResult:
    services = call.services
    try:
        _require_known_time(asked.timestamp, call.version)
        replica = find_replica(services.replicas, services.image, topic, asked.partition_index)
        replica.partition.check_leadership(asked.current_leader_epoch)
        found = offset_at(replica, asked.timestamp, isolation)
    except PeerError as error:
        return _refusal(asked.partition_index, error.code, call)
    return PartitionResult(
        partition_index=asked.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch if call.version >= 4 else -1,
    )


def _require_known_time(timestamp: int, version: int) -> None:
    """Below zero there are only the special ones, each from some version on."""
    if timestamp < 0 and version < FIRST_VERSION_OF.get(timestamp, version + 1):
        raise PeerError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} in v{version}")


def _refusal(index: int, code: ErrorCode, call: Call) -> PartitionResult:
    if code is ErrorCode.OFFSET_NOT_AVAILABLE and call.version < OFFSET_NOT_AVAILABLE_SINCE:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    call.count_refusal(code)
    return PartitionResult(partition_index=index, error_code=code)
