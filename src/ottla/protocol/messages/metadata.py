"""Metadata (3) v0-13. v1 adds the controller and racks, v2 the cluster id (KIP-78), v4 permission
to create topics, v5 offline replicas (KIP-112), v7 leader epochs (KIP-320), v8 authorized
operations (KIP-430), v10 topic ids (KIP-516), v12 lookup by topic id, v13 a top-level error
(KIP-1102). Gaps: none.
"""

from ottla.protocol.codec import nullable_since, request, response, since, struct
from ottla.protocol.primitives import OPERATIONS_NOT_ASKED_FOR, ZERO_UUID, Uuid, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class RequestedTopic:
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    name: str | None = nullable_since(10)


@request(key=3, versions=(0, 13), flexible=9)
class MetadataRequest:
    topics: tuple[RequestedTopic, ...] | None = nullable_since(1)
    allow_auto_topic_creation: bool = since(4, default=True)
    include_cluster_authorized_operations: bool = since(8, until=10, default=False)
    include_topic_authorized_operations: bool = since(8, default=False)


@struct
class Broker:
    node_id: i32
    host: str
    port: i32
    rack: str | None = since(1, default=None, ignorable=True)


@struct
class Partition:
    error_code: i16
    partition_index: i32
    leader_id: i32
    leader_epoch: i32 = since(7, default=-1, ignorable=True)
    replica_nodes: tuple[i32, ...]
    isr_nodes: tuple[i32, ...]
    offline_replicas: tuple[i32, ...] = since(5, default=(), ignorable=True)


@struct
class Topic:
    error_code: i16
    name: str | None = nullable_since(12)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    is_internal: bool = since(1, default=False, ignorable=True)
    partitions: tuple[Partition, ...]
    topic_authorized_operations: i32 = since(8, default=OPERATIONS_NOT_ASKED_FOR)


@response(to=MetadataRequest)
class MetadataResponse:
    throttle_time_ms: i32 = since(3, default=0, ignorable=True)
    brokers: tuple[Broker, ...]
    cluster_id: str | None = since(2, default=None, ignorable=True)
    controller_id: i32 = since(1, default=-1, ignorable=True)
    topics: tuple[Topic, ...]
    cluster_authorized_operations: i32 = since(8, until=10, default=OPERATIONS_NOT_ASKED_FOR)
    error_code: i16 = since(13, default=0, ignorable=True)


def refuse(request: MetadataRequest, refusal: Refusal) -> MetadataResponse:
    return MetadataResponse(
        error_code=refusal.code,
        brokers=(),
        topics=tuple(
            Topic(
                error_code=refusal.code,
                name=topic.name if refusal.version >= 12 else topic.name or "",
                topic_id=topic.topic_id,
                partitions=(),
            )
            for topic in request.topics or ()
        ),
    )
