"""ListOffsets (2) v1-11. v2 adds isolation levels (KIP-98), v4 leader epochs (KIP-320), v7 the
largest timestamp (KIP-734), v8 and v9 tiered offsets (KIP-405, KIP-1005), v10 a timeout
(KIP-1075), v11 the first offset not yet tiered (KIP-1023). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i8, i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class Partition:
    partition_index: i32
    current_leader_epoch: i32 = since(4, default=-1, ignorable=True)
    timestamp: i64


@struct
class Topic:
    name: str
    partitions: tuple[Partition, ...]


@request(key=2, versions=(1, 11), flexible=6)
class ListOffsetsRequest:
    replica_id: i32
    isolation_level: i8 = since(2, default=0)
    topics: tuple[Topic, ...]
    timeout_ms: i32 = since(10, default=0, ignorable=True)


@struct
class PartitionResult:
    partition_index: i32
    error_code: i16
    timestamp: i64 = -1
    offset: i64 = -1
    leader_epoch: i32 = since(4, default=-1)


@struct
class TopicResult:
    name: str
    partitions: tuple[PartitionResult, ...]


@response(to=ListOffsetsRequest)
class ListOffsetsResponse:
    throttle_time_ms: i32 = since(2, default=0, ignorable=True)
    topics: tuple[TopicResult, ...]


def refuse(request: ListOffsetsRequest, refusal: Refusal) -> ListOffsetsResponse:
    return ListOffsetsResponse(
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
