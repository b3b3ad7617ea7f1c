"""DescribeProducers (61) v0-0. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class RequestedTopic:
    name: str
    partition_indexes: tuple[i32, ...]


@request(key=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest:
    topics: tuple[RequestedTopic, ...]


@struct
class Producer:
    producer_id: i64
    producer_epoch: i32
    last_sequence: i32 = -1
    last_timestamp: i64 = -1
    coordinator_epoch: i32
    current_txn_start_offset: i64 = -1


@struct
class Partition:
    partition_index: i32
    error_code: i16
    error_message: str | None = None
    active_producers: tuple[Producer, ...]


@struct
class Topic:
    name: str
    partitions: tuple[Partition, ...]


@response(to=DescribeProducersRequest)
class DescribeProducersResponse:
    throttle_time_ms: i32 = 0
    topics: tuple[Topic, ...]


def refuse(request: DescribeProducersRequest, refusal: Refusal) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=tuple(
            Topic(
                name=topic.name,
                partitions=tuple(
                    Partition(
                        partition_index=index,
                        error_code=refusal.code,
                        error_message=refusal.message,
                        active_producers=(),
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        )
    )
