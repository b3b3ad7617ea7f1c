"""DescribeLogDirs (35) v1-5. v3 adds a top-level error (KIP-784), v4 the volume's size (KIP-827),
v5 cordoned directories (KIP-1066). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i16, i32, i64


@struct
class RequestedTopic:
    topic: str
    partitions: tuple[i32, ...]


@request(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsRequest:
    topics: tuple[RequestedTopic, ...] | None


@struct
class Partition:
    partition_index: i32
    partition_size: i64
    offset_lag: i64
    is_future_key: bool


@struct
class Topic:
    name: str
    partitions: tuple[Partition, ...]


@struct
class LogDir:
    error_code: i16
    log_dir: str
    topics: tuple[Topic, ...]
    total_bytes: i64 = since(4, default=-1, ignorable=True)
    usable_bytes: i64 = since(4, default=-1, ignorable=True)
    is_cordoned: bool = since(5, default=False, ignorable=True)


@response(to=DescribeLogDirsRequest)
class DescribeLogDirsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = since(3, default=0, ignorable=True)
    results: tuple[LogDir, ...]
