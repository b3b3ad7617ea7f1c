"""OffsetForLeaderEpoch (23) v2-4. v3 adds the replica id of the sender (KIP-392). Gaps: none."""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class Partition:
    partition: i32
    current_leader_epoch: i32 = -1
    leader_epoch: i32


@struct
class Topic:
    topic: str
    partitions: tuple[Partition, ...]


@request(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochRequest:
    replica_id: i32 = since(3, default=-2, ignorable=True)
    topics: tuple[Topic, ...]


@struct
class PartitionResult:
    error_code: i16
    partition: i32
    leader_epoch: i32 = -1
    end_offset: i64 = -1


@struct
class TopicResult:
    topic: str
    partitions: tuple[PartitionResult, ...]


@response(to=OffsetForLeaderEpochRequest)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: i32 = 0
    topics: tuple[TopicResult, ...]


def refuse(request: OffsetForLeaderEpochRequest, refusal: Refusal) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            TopicResult(
                topic=topic.topic,
                partitions=tuple(
                    PartitionResult(error_code=refusal.code, partition=partition.partition)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
