"""OffsetCommit (8) v2-10. v5 drops the retention time, v6 adds leader epochs (KIP-320), v7 static
members (KIP-345), v9 member epochs (KIP-848), v10 topic ids (KIP-516). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct, until
from ottla.protocol.primitives import ZERO_UUID, Uuid, i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class Partition:
    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: i32 = since(6, default=-1, ignorable=True)
    committed_metadata: str | None


@struct
class Topic:
    name: str = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: tuple[Partition, ...]


@request(key=8, versions=(2, 10), flexible=8)
class OffsetCommitRequest:
    group_id: str
    generation_id_or_member_epoch: i32 = -1
    member_id: str
    group_instance_id: str | None = since(7, default=None)
    retention_time_ms: i64 = until(4, default=-1, ignorable=True)
    topics: tuple[Topic, ...]


@struct
class PartitionResult:
    partition_index: i32
    error_code: i16


@struct
class TopicResult:
    name: str = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: tuple[PartitionResult, ...]


@response(to=OffsetCommitRequest)
class OffsetCommitResponse:
    throttle_time_ms: i32 = since(3, default=0, ignorable=True)
    topics: tuple[TopicResult, ...]


def refuse(request: OffsetCommitRequest, refusal: Refusal) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            TopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    PartitionResult(
                        partition_index=partition.partition_index, error_code=refusal.code
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
