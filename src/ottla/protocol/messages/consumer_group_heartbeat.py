"""ConsumerGroupHeartbeat (68) v0-1. v1 adds regular expressions and member ids that members choose
(KIP-848, KIP-1082). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import Uuid, i16, i32


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: tuple[i32, ...]


@request(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: i32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: i32 = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = since(1, default=None)
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None


@struct
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]


@response(to=ConsumerGroupHeartbeatRequest)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: i32
    heartbeat_interval_ms: i32
    assignment: Assignment | None = None
