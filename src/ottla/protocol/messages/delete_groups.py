"""DeleteGroups (42) v0-2. v2 is flexible. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i16, i32
from ottla.protocol.refusal import Refusal


@request(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsRequest:
    groups_names: tuple[str, ...]


@struct
class GroupResult:
    group_id: str
    error_code: i16


@response(to=DeleteGroupsRequest)
class DeleteGroupsResponse:
    throttle_time_ms: i32 = 0
    results: tuple[GroupResult, ...]


def refuse(request: DeleteGroupsRequest, refusal: Refusal) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=tuple(
            GroupResult(group_id=group_id, error_code=refusal.code)
            for group_id in request.groups_names
        )
    )
