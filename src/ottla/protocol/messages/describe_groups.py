"""DescribeGroups (15) v0-6. v3 adds authorized operations (KIP-430), v4 static members (KIP-345),
v6 an error for groups that do not exist (KIP-1043). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import OPERATIONS_NOT_ASKED_FOR, i16, i32
from ottla.protocol.refusal import Refusal


@request(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsRequest:
    groups: tuple[str, ...]
    include_authorized_operations: bool = since(3, default=False)


@struct
class Member:
    member_id: str
    group_instance_id: str | None = since(4, default=None, ignorable=True)
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@struct
class Group:
    error_code: i16
    error_message: str | None = since(6, default=None)
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: tuple[Member, ...]
    authorized_operations: i32 = since(3, default=OPERATIONS_NOT_ASKED_FOR)


@response(to=DescribeGroupsRequest)
class DescribeGroupsResponse:
    throttle_time_ms: i32 = since(1, default=0, ignorable=True)
    groups: tuple[Group, ...]


def refuse(request: DescribeGroupsRequest, refusal: Refusal) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=tuple(
            Group(
                error_code=refusal.code,
                error_message=refusal.message if refusal.version >= 6 else None,
                group_id=group_id,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=(),
            )
            for group_id in request.groups
        )
    )
