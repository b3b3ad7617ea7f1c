"""DeleteRecords (21) v0-2. v2 is flexible. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class Partition:
    partition_index: i32
    offset: i64


@struct
class Topic:
    name: str
    partitions: tuple[Partition, ...]


@request(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    topics: tuple[Topic, ...]
    timeout_ms: i32


@struct
class PartitionResult:
    partition_index: i32
    low_watermark: i64
    error_code: i16


@struct
class TopicResult:
    name: str
    partitions: tuple[PartitionResult, ...]


@response(to=DeleteRecordsRequest)
class DeleteRecordsResponse:
    throttle_time_ms: i32 = 0
    topics: tuple[TopicResult, ...]


def refuse(request: DeleteRecordsRequest, refusal: Refusal) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=tuple(
            TopicResult(
                name=topic.name,
                partitions=tuple(
                    PartitionResult(
                        partition_index=partition.partition_index,
                        low_watermark=-1,
                        error_code=refusal.code,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
