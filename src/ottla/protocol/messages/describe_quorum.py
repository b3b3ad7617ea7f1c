"""DescribeQuorum (55) v0-2. v1 adds fetch times (KIP-836), v2 nodes and directory ids (KIP-853).
Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import ZERO_UUID, Uuid, i16, i32, i64, u16


@struct
class RequestedPartition:
    partition_index: i32


@struct
class RequestedTopic:
    topic_name: str
    partitions: tuple[RequestedPartition, ...]


@request(key=55, versions=(0, 2), flexible=0)
class DescribeQuorumRequest:
    topics: tuple[RequestedTopic, ...]


@struct
class ReplicaState:
    replica_id: i32
    replica_directory_id: Uuid = since(2, default=ZERO_UUID)
    log_end_offset: i64
    last_fetch_timestamp: i64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: i64 = since(1, default=-1, ignorable=True)


@struct
class Partition:
    partition_index: i32
    error_code: i16
    error_message: str | None = since(2, default=None, ignorable=True)
    leader_id: i32
    leader_epoch: i32
    high_watermark: i64
    current_voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]


@struct
class Topic:
    topic_name: str
    partitions: tuple[Partition, ...]


@struct
class Listener:
    name: str
    host: str
    port: u16


@struct
class Node:
    node_id: i32
    listeners: tuple[Listener, ...]


@response(to=DescribeQuorumRequest)
class DescribeQuorumResponse:
    error_code: i16
    error_message: str | None = since(2, default=None, ignorable=True)
    topics: tuple[Topic, ...]
    nodes: tuple[Node, ...] = since(2, default=())
