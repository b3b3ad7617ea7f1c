"""DeleteAcls (31) v1-3. v1 adds pattern types (KIP-290), v3 users (KIP-373). Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i8, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Filter:
    resource_type_filter: i8
    resource_name_filter: str | None
    pattern_type_filter: i8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: i8
    permission_type: i8


@request(key=31, versions=(1, 3), flexible=2)
class DeleteAclsRequest:
    filters: tuple[Filter, ...]


@struct
class MatchingAcl:
    error_code: i16
    error_message: str | None = None
    resource_type: i8
    resource_name: str
    pattern_type: i8 = 3
    principal: str
    host: str
    operation: i8
    permission_type: i8


@struct
class FilterResult:
    error_code: i16
    error_message: str | None = None
    matching_acls: tuple[MatchingAcl, ...]


@response(to=DeleteAclsRequest)
class DeleteAclsResponse:
    throttle_time_ms: i32 = 0
    filter_results: tuple[FilterResult, ...]


def refuse(request: DeleteAclsRequest, refusal: Refusal) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=tuple(
            FilterResult(error_code=refusal.code, error_message=refusal.message, matching_acls=())
            for _ in request.filters
        )
    )
