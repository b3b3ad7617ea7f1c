"""Heartbeat (12) v0-4. v1 adds the throttle time, v3 static members (KIP-345). Gaps: none."""

from ottla.protocol.codec import request, response, since
from ottla.protocol.primitives import i16, i32


@request(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest:
    group_id: str
    generation_id: i32
    member_id: str
    group_instance_id: str | None = since(3, default=None)


@response(to=HeartbeatRequest)
class HeartbeatResponse:
    throttle_time_ms: i32 = since(1, default=0, ignorable=True)
    error_code: i16
