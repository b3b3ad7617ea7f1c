"""CreateAcls (30) v1-3. v1 adds pattern types (KIP-290), v3 users (KIP-373). Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i8, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Creation:
    resource_type: i8
    resource_name: str
    resource_pattern_type: i8 = 3
    principal: str
    host: str
    operation: i8
    permission_type: i8


@request(key=30, versions=(1, 3), flexible=2)
class CreateAclsRequest:
    creations: tuple[Creation, ...]


@struct
class CreationResult:
    error_code: i16
    error_message: str | None = None


@response(to=CreateAclsRequest)
class CreateAclsResponse:
    throttle_time_ms: i32 = 0
    results: tuple[CreationResult, ...]


def refuse(request: CreateAclsRequest, refusal: Refusal) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=tuple(
            CreationResult(error_code=refusal.code, error_message=refusal.message)
            for _ in request.creations
        )
    )
