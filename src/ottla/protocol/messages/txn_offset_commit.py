"""TxnOffsetCommit (28) v0-5. v2 adds leader epochs (KIP-320), v3 the group's member (KIP-447), v5
adds the group to a transaction implicitly (KIP-890). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class Partition:
    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: i32 = since(2, default=-1, ignorable=True)
    committed_metadata: str | None


@struct
class Topic:
    name: str
    partitions: tuple[Partition, ...]


@request(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: i64
    producer_epoch: i16
    generation_id: i32 = since(3, default=-1)
    member_id: str = since(3, default="")
    group_instance_id: str | None = since(3, default=None)
    topics: tuple[Topic, ...]


@struct
class PartitionResult:
    partition_index: i32
    error_code: i16


@struct
class TopicResult:
    name: str
    partitions: tuple[PartitionResult, ...]


@response(to=TxnOffsetCommitRequest)
class TxnOffsetCommitResponse:
    throttle_time_ms: i32 = 0
    topics: tuple[TopicResult, ...]


def refuse(request: TxnOffsetCommitRequest, refusal: Refusal) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TopicResult(
                name=topic.name,
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
