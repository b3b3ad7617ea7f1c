"""DescribeCluster (60) v0-2. v1 adds endpoint types (KIP-919), v2 fenced brokers (KIP-1073). Gaps:
none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import OPERATIONS_NOT_ASKED_FOR, i8, i16, i32


@request(key=60, versions=(0, 2), flexible=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool
    endpoint_type: i8 = since(1, default=1)
    include_fenced_brokers: bool = since(2, default=False)


@struct
class Broker:
    broker_id: i32
    host: str
    port: i32
    rack: str | None = None
    is_fenced: bool = since(2, default=False)


@response(to=DescribeClusterRequest)
class DescribeClusterResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    endpoint_type: i8 = since(1, default=1)
    cluster_id: str
    controller_id: i32 = -1
    brokers: tuple[Broker, ...]
    cluster_authorized_operations: i32 = OPERATIONS_NOT_ASKED_FOR
