"""DeleteRecords (21) v0-2. Moves the start of partitions, durably; offset -1 is the high watermark.
Gaps: none.
"""

from ottla.broker.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    Partition,
    PartitionResult,
    TopicResult,
)
from ottla.replication.lookup import find_replica
from ottla.replication.offsets import delete_before


def handle(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=tuple(
            TopicResult(
                name=topic.name,
                partitions=tuple(_answer(topic.name, asked, call) for asked in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _answer(topic: str, asked: Partition, call: Call) -> PartitionResult:
    services = call.services
    try:
        replica = find_replica(services.replicas, services.image, topic, asked.partition_index)
        replica.partition.check_leadership()
        low_watermark = delete_before(replica, asked.offset)
    except PeerError as error:
        call.count_refusal(error.code)
        return PartitionResult(
            partition_index=asked.partition_index, low_watermark=-1, error_code=error.code
        )
    return PartitionResult(
        partition_index=asked.partition_index,
        low_watermark=low_watermark,
        error_code=ErrorCode.NONE,
    )
