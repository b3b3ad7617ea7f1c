"""DescribeTopicPartitions (75) v0-0. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import OPERATIONS_NOT_ASKED_FOR, ZERO_UUID, Uuid, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class RequestedTopic:
    name: str


@struct
class Cursor:
    topic_name: str
    partition_index: i32


@request(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest:
    topics: tuple[RequestedTopic, ...]
    response_partition_limit: i32 = 2000
    cursor: Cursor | None = None


@struct
class Partition:
    error_code: i16
    partition_index: i32
    leader_id: i32
    leader_epoch: i32 = -1
    replica_nodes: tuple[i32, ...]
    isr_nodes: tuple[i32, ...]
    eligible_leader_replicas: tuple[i32, ...] | None = None
    last_known_elr: tuple[i32, ...] | None = None
    offline_replicas: tuple[i32, ...]


@struct
class Topic:
    error_code: i16
    name: str | None
    topic_id: Uuid
    is_internal: bool = False
    partitions: tuple[Partition, ...]
    topic_authorized_operations: i32 = OPERATIONS_NOT_ASKED_FOR


@response(to=DescribeTopicPartitionsRequest)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: i32 = 0
    topics: tuple[Topic, ...]
    next_cursor: Cursor | None = None


def refuse(
    request: DescribeTopicPartitionsRequest, refusal: Refusal
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=tuple(
            Topic(
                error_code=refusal.code,
                name=topic.name,
                topic_id=ZERO_UUID,
                partitions=(),
            )
            for topic in request.topics
        )
    )
