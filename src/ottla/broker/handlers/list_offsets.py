"""ListOffsets (2) v1-11. First and last offsets, and offsets by timestamp; -4 is the earliest
offset, -5 and -6 find nothing, since there is no tiered storage. Gaps: none.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable
from functools import partial
from typing import NamedTuple

from ottla.broker.requests.authorization import topic_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.record_work import RecordWorkQueueFull
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    Partition,
    PartitionResult,
    TopicResult,
)
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.primitives import CONSUMER_REPLICA_ID
from ottla.replication.fetch.cold_reads import ColdPiece
from ottla.replication.lookup import find_replica
from ottla.replication.offsets import is_special, offset_found, search_by_time, special_offset
from ottla.replication.replica import Replica
from ottla.storage.admission.work_budget import BudgetSpent
from ottla.storage.log.cold_read import ColdBytes
from ottla.storage.log.time_search import Answer, Reading, TimestampOffset, Unreadable

FIRST_VERSION_OF: dict[int, int] = {
    OffsetSpec.LATEST: 1,
    OffsetSpec.EARLIEST: 1,
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
# Before this version, LEADER_NOT_AVAILABLE is sent instead.
OFFSET_NOT_AVAILABLE_SINCE = 5


# By topic, in the order of the request.
TopicResults = list[tuple[str, list[PartitionResult]]]


class TimestampSearch(NamedTuple):
    """A search by timestamp in one partition, and the position of its result in the response."""

    replica: Replica
    asked: Partition
    results: list[PartitionResult]
    position: int


# After this many searches other clients have their turn of the event loop.
PARTITIONS_PER_TURN = 16


def handle(
    request: ListOffsetsRequest, call: Call
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    isolation = _isolation_of(request)
    times_asked = Counter(
        (topic.name, asked.partition_index)
        for topic in request.topics
        for asked in topic.partitions
    )
    answers: TopicResults = []
    searches: list[TimestampSearch] = []
    for topic in request.topics:
        results: list[PartitionResult] = []
        is_allowed = call.may(topic_resource(topic.name))
        # A partition that is named twice has one result.
        for asked in {each.partition_index: each for each in topic.partitions}.values():
            index = asked.partition_index
            if not is_allowed:
                results.append(_refusal(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, call))
                continue
            if times_asked[topic.name, index] > 1:
                results.append(_refusal(index, ErrorCode.INVALID_REQUEST, call))
                continue
            found = _answer(topic.name, asked, isolation, call)
            if isinstance(found, Replica):
                searches.append(TimestampSearch(found, asked, results, len(results)))
                found = PartitionResult(partition_index=index, error_code=ErrorCode.NONE)
            results.append(found)
        answers.append((topic.name, results))
    return _search_all(answers, searches, isolation, call) if searches else _response(answers)


def _response(answers: TopicResults) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=tuple(TopicResult(name=name, partitions=tuple(results)) for name, results in answers)
    )


def _isolation_of(request: ListOffsetsRequest) -> Isolation | None:
    """The isolation level of a consumer; None for replicas, which read the whole log."""
    try:
        isolation = Isolation(request.isolation_level)
    except ValueError:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"isolation level {request.isolation_level}"
        ) from None
    return isolation if request.replica_id == CONSUMER_REPLICA_ID else None


def _answer(
    topic: str, asked: Partition, isolation: Isolation | None, call: Call
) -> PartitionResult | Replica:
    """The result, or the replica to search in by timestamp."""
    services = call.services
    try:
        _require_known_time(asked.timestamp, call.version)
        replica = find_replica(
            services.partitions.replicas, services.image, topic, asked.partition_index
        )
        replica.partition.check_leadership(asked.current_leader_epoch)
        if not is_special(asked.timestamp):
            return replica
        found = special_offset(replica, asked.timestamp, isolation)
    except PeerError as error:
        return _refusal(asked.partition_index, error.code, call)
    return _result(asked.partition_index, found, call)


def _result(index: int, found: TimestampOffset, call: Call) -> PartitionResult:
    return PartitionResult(
        partition_index=index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch if call.version >= 4 else -1,
    )


# Search by timestamp


async def _search_all(
    answers: TopicResults, searches: list[TimestampSearch], isolation: Isolation | None, call: Call
) -> ListOffsetsResponse:
    for number, (replica, asked, results, position) in enumerate(searches, 1):
        index = asked.partition_index
        try:
            found = await _search(replica, asked.timestamp, call)
            replica.partition.check_leadership(asked.current_leader_epoch)
            results[position] = _result(index, offset_found(replica, found, isolation), call)
        except PeerError as error:
            results[position] = _refusal(index, error.code, call)
        if number % PARTITIONS_PER_TURN == 0:
            await asyncio.sleep(0)
    return _response(answers)


async def _search(replica: Replica, timestamp_ms: int, call: Call) -> TimestampOffset | None:
    """Performs the steps of a search. PeerError if the disk fails."""
    log = replica.log
    if log is None:
        return None
    search = search_by_time(log, timestamp_ms)
    answer: Answer = None
    try:
        while True:
            step = search.send(answer)
            answer = None
            if isinstance(step, Reading):
                answer = await _read(step, replica, call)
            elif isinstance(step, ColdBytes):
                await call.services.partitions.cold_reads.warm([ColdPiece(log, step)])
            else:
                await asyncio.sleep(0)
    except StopIteration as over:
        found: TimestampOffset | None = over.value
        return found
    except (StorageError, OSError) as error:
        raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


async def _read(reading: Reading, replica: Replica, call: Call) -> Answer:
    """Reads a batch's records: within the turn's budget on the event loop, else in a thread."""
    services = call.services
    size_max = replica.rules.admission.decompressed_bytes_max
    try:
        try:
            return reading.answer(size_max, services.records.turn_budget)
        except BudgetSpent:
            size_bytes = len(reading.batch.content)
            return await services.records.work.run(partial(reading.answer, size_max), size_bytes)
    except RecordWorkQueueFull:
        raise
    except PeerError as error:
        header = reading.batch.header
        services.logger.warning(
            "unreadable batch",
            repeats_of=str(replica.name),
            partition=str(replica.name),
            offset=header.base_offset,
            error=str(error),
        )
        return Unreadable(str(error))


def _require_known_time(timestamp: int, version: int) -> None:
    """PeerError for a negative timestamp that this version does not define."""
    if timestamp < 0 and version < FIRST_VERSION_OF.get(timestamp, version + 1):
        raise PeerError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} in v{version}")


def _refusal(index: int, code: ErrorCode, call: Call) -> PartitionResult:
    if code is ErrorCode.OFFSET_NOT_AVAILABLE and call.version < OFFSET_NOT_AVAILABLE_SINCE:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    call.count_refusal(code)
    return PartitionResult(partition_index=index, error_code=code)
