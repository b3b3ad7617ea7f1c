"""JoinGroup (11) v0-9. v1 adds the rebalance timeout (KIP-62), v4 asks new members to join again
with an id (KIP-394), v5 adds static members (KIP-345), v7 the protocol type (KIP-559), v8 a reason
(KIP-800), v9 skipped assignments (KIP-814). Gaps: none.
"""

from ottla.protocol.codec import nullable_since, request, response, since, struct
from ottla.protocol.primitives import i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Protocol:
    name: str
    metadata: bytes


@request(key=11, versions=(0, 9), flexible=6)
class JoinGroupRequest:
    group_id: str
    session_timeout_ms: i32
    rebalance_timeout_ms: i32 = since(1, default=-1, ignorable=True)
    member_id: str
    group_instance_id: str | None = since(5, default=None)
    protocol_type: str
    protocols: tuple[Protocol, ...]
    reason: str | None = since(8, default=None, ignorable=True)


@struct
class Member:
    member_id: str
    group_instance_id: str | None = since(5, default=None, ignorable=True)
    metadata: bytes


@response(to=JoinGroupRequest)
class JoinGroupResponse:
    throttle_time_ms: i32 = since(2, default=0, ignorable=True)
    error_code: i16
    generation_id: i32 = -1
    protocol_type: str | None = since(7, default=None, ignorable=True)
    protocol_name: str | None = nullable_since(7)
    leader: str
    skip_assignment: bool = since(9, default=False)
    member_id: str
    members: tuple[Member, ...]


def refuse(request: JoinGroupRequest, refusal: Refusal) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=refusal.code,
        protocol_name=None if refusal.version >= 7 else "",
        leader="",
        member_id=request.member_id,
        members=(),
    )
