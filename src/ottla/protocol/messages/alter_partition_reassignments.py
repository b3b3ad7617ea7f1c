"""AlterPartitionReassignments (45) v0-1. v1 adds permission to change the replication factor
(KIP-860). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i16, i32


@struct
class Partition:
    partition_index: i32
    replicas: tuple[i32, ...] | None = None


@struct
class Topic:
    name: str
    partitions: tuple[Partition, ...]


@request(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: i32 = 60000
    allow_replication_factor_change: bool = since(1, default=True)
    topics: tuple[Topic, ...]


@struct
class PartitionResult:
    partition_index: i32
    error_code: i16
    error_message: str | None = None


@struct
class TopicResult:
    name: str
    partitions: tuple[PartitionResult, ...]


@response(to=AlterPartitionReassignmentsRequest)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: i32 = 0
    allow_replication_factor_change: bool = since(1, default=True, ignorable=True)
    error_code: i16
    error_message: str | None = None
    responses: tuple[TopicResult, ...]
