"""DeleteRecords (21) v0-2. Raises log start offsets durably; offset -1 is the high watermark.
Gaps: none.
"""

from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    Partition,
    PartitionResult,
    TopicResult,
)
from ottla.replication.housekeeping.delete_records import Deletion, delete_before
from ottla.replication.lookup import find_replica


async def handle(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    services = call.services
    found = [
        _find(topic.name, asked, call) for topic in request.topics for asked in topic.partitions
    ]
    allowed = [each for each in found if isinstance(each, Deletion)]
    directories = services.replicas.directories
    done = iter(await delete_before(allowed, directories, services.checkpointer))
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


def _find(topic: str, asked: Partition, call: Call) -> Deletion | PeerError:
    services = call.services
    try:
        replica = find_replica(services.replicas, services.image, topic, asked.partition_index)
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
