"""LeaveGroup (13) v0-5. v1 adds the throttle time, v3 takes several members (KIP-345), v5 a reason
(KIP-800). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct, until
from ottla.protocol.primitives import i16, i32


@struct
class Member:
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = since(5, default=None, ignorable=True)


@request(key=13, versions=(0, 5), flexible=4)
class LeaveGroupRequest:
    group_id: str
    member_id: str = until(2, default="")
    members: tuple[Member, ...] = since(3, default=())


@struct
class MemberResult:
    member_id: str
    group_instance_id: str | None
    error_code: i16


@response(to=LeaveGroupRequest)
class LeaveGroupResponse:
    throttle_time_ms: i32 = since(1, default=0, ignorable=True)
    error_code: i16
    members: tuple[MemberResult, ...] = since(3, default=())
