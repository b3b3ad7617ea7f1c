"""DeleteRecords (21) v0-2. Raises log start offsets durably; offset -1 is the high watermark.
Answered when the replicas on live brokers have deleted them. Gaps: none.
"""

import asyncio

from ottla.broker.requests.authorization import topic_resource
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    Partition,
    PartitionResult,
    TopicResult,
)
from ottla.replication.housekeeping.delete_records import Deletion, delete_before, until_deleted
from ottla.replication.lookup import find_replica
from ottla.replication.replica import Replica


async def handle(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    services = call.services
    found = [
        _find(topic.name, asked, call) for topic in request.topics for asked in topic.partitions
    ]
    allowed = [each for each in found if isinstance(each, Deletion)]
    directories = services.partitions.replicas.directories
    starts = await delete_before(allowed, directories, services.partitions.checkpointer)
    done = iter(await _until_replicas_have(allowed, starts, request.timeout_ms, call))
    answers = iter([each if isinstance(each, PeerError) else next(done) for each in found])
    return DeleteRecordsResponse(
        topics=tuple(
            TopicResult(
                name=topic.name,
                partitions=tuple(_result(each, next(answers), call) for each in topic.partitions),
            )
            for topic in request.topics
        )
    )


async def _until_replicas_have(
    deletions: list[Deletion], starts: list[int | PeerError], wait_ms: int, call: Call
) -> list[int | PeerError]:
    """The low watermarks, once the followers have deleted the records, too."""
    services = call.services

    def is_live(broker_id: int) -> bool:
        broker = services.image.brokers.get(broker_id)
        return broker is not None and broker.is_live

    async def outcome(replica: Replica, start: int | PeerError) -> int | PeerError:
        if isinstance(start, PeerError) or len(replica.partition.replicas) == 1:
            return start
        return await until_deleted(replica, start, is_live, wait_ms)

    return await asyncio.gather(
        *[outcome(each.replica, start) for each, start in zip(deletions, starts, strict=True)]
    )


def _find(topic: str, asked: Partition, call: Call) -> Deletion | PeerError:
    services = call.services
    try:
        call.require(topic_resource(topic))
        replica = find_replica(
            services.partitions.replicas, services.image, topic, asked.partition_index
        )
        replica.partition.check_leadership()
    except PeerError as error:
        return error
    return Deletion(replica, asked.offset)


def _result(asked: Partition, answer: int | PeerError, call: Call) -> PartitionResult:
    if isinstance(answer, PeerError):
        call.count_refusal(answer.code)
        return PartitionResult(
            partition_index=asked.partition_index, low_watermark=-1, error_code=answer.code
        )
    return PartitionResult(
        partition_index=asked.partition_index, low_watermark=answer, error_code=ErrorCode.NONE
    )
