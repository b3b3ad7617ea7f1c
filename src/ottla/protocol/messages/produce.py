"""Produce (0) v3-13. v5 adds the log start offset, v8 errors of single records (KIP-467), v10 the
new leader's address (KIP-951), v12 adds partitions to a transaction implicitly (KIP-890), v13 names
topics by id (KIP-516). Versions 0 to 2 are advertised and refused. Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct, tagged, until
from ottla.protocol.primitives import ZERO_UUID, Records, Uuid, i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class Partition:
    index: i32
    records: Records | None


@struct
class Topic:
    name: str = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_data: tuple[Partition, ...]


@request(key=0, versions=(3, 13), flexible=9)
class ProduceRequest:
    transactional_id: str | None = None
    acks: i16
    timeout_ms: i32
    topic_data: tuple[Topic, ...]


@struct
class RecordError:
    batch_index: i32
    batch_index_error_message: str | None = None


@struct
class Leader:
    leader_id: i32 = -1
    leader_epoch: i32 = -1


@struct
class PartitionResult:
    index: i32
    error_code: i16
    base_offset: i64
    log_append_time_ms: i64 = -1
    log_start_offset: i64 = since(5, default=-1, ignorable=True)
    record_errors: tuple[RecordError, ...] = since(8, default=(), ignorable=True)
    error_message: str | None = since(8, default=None, ignorable=True)
    current_leader: Leader | None = tagged(0, since=10, default=None)


@struct
class TopicResult:
    name: str = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_responses: tuple[PartitionResult, ...]


@struct
class NodeEndpoint:
    node_id: i32
    host: str
    port: i32
    rack: str | None = None


@response(to=ProduceRequest)
class ProduceResponse:
    responses: tuple[TopicResult, ...]
    throttle_time_ms: i32 = 0
    node_endpoints: tuple[NodeEndpoint, ...] = tagged(0, since=10, default=())


def refuse(request: ProduceRequest, refusal: Refusal) -> ProduceResponse:
    return ProduceResponse(
        responses=tuple(
            TopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    PartitionResult(
                        index=partition.index,
                        error_code=refusal.code,
                        base_offset=-1,
                        error_message=refusal.message,
                    )
                    for partition in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )
    )
