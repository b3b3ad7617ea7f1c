"""ListPartitionReassignments (46) v0-0. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i16, i32


@struct
class RequestedTopic:
    name: str
    partition_indexes: tuple[i32, ...]


@request(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: i32 = 60000
    topics: tuple[RequestedTopic, ...] | None = None


@struct
class Partition:
    partition_index: i32
    replicas: tuple[i32, ...]
    adding_replicas: tuple[i32, ...]
    removing_replicas: tuple[i32, ...]


@struct
class Topic:
    name: str
    partitions: tuple[Partition, ...]


@response(to=ListPartitionReassignmentsRequest)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    topics: tuple[Topic, ...]
