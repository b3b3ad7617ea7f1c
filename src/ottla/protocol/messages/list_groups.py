"""ListGroups (16) v0-5. v1 adds the throttle time, v4 states (KIP-518), v5 group types (KIP-848).
Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i16, i32


@request(key=16, versions=(0, 5), flexible=3)
class ListGroupsRequest:
    states_filter: tuple[str, ...] = since(4, default=())
    types_filter: tuple[str, ...] = since(5, default=())


@struct
class Group:
    group_id: str
    protocol_type: str
    group_state: str = since(4, default="", ignorable=True)
    group_type: str = since(5, default="", ignorable=True)


@response(to=ListGroupsRequest)
class ListGroupsResponse:
    throttle_time_ms: i32 = since(1, default=0, ignorable=True)
    error_code: i16
    groups: tuple[Group, ...]
