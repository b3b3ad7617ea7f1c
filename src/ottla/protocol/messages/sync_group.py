"""SyncGroup (14) v0-5. v1 adds the throttle time, v3 static members (KIP-345), v5 the protocol
(KIP-559). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i16, i32


@struct
class Assignment:
    member_id: str
    assignment: bytes


@request(key=14, versions=(0, 5), flexible=4)
class SyncGroupRequest:
    group_id: str
    generation_id: i32
    member_id: str
    group_instance_id: str | None = since(3, default=None)
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignments: tuple[Assignment, ...]


@response(to=SyncGroupRequest)
class SyncGroupResponse:
    throttle_time_ms: i32 = since(1, default=0, ignorable=True)
    error_code: i16
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignment: bytes
