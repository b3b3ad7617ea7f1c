"""OffsetDelete (47) v0-0. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i16, i32


@struct
class Partition:
    partition_index: i32


@struct
class Topic:
    name: str
    partitions: tuple[Partition, ...]


@request(key=47, versions=(0, 0), flexible=None)
class OffsetDeleteRequest:
    group_id: str
    topics: tuple[Topic, ...]


@struct
class PartitionResult:
    partition_index: i32
    error_code: i16


@struct
class TopicResult:
    name: str
    partitions: tuple[PartitionResult, ...]


@response(to=OffsetDeleteRequest)
class OffsetDeleteResponse:
    error_code: i16
    throttle_time_ms: i32 = 0
    topics: tuple[TopicResult, ...]
