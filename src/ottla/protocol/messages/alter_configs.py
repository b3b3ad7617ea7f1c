"""AlterConfigs (33) v0-2. v2 is flexible. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i8, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Config:
    name: str
    value: str | None


@struct
class Resource:
    resource_type: i8
    resource_name: str
    configs: tuple[Config, ...]


@request(key=33, versions=(0, 2), flexible=2)
class AlterConfigsRequest:
    resources: tuple[Resource, ...]
    validate_only: bool


@struct
class ResourceResult:
    error_code: i16
    error_message: str | None = None
    resource_type: i8
    resource_name: str


@response(to=AlterConfigsRequest)
class AlterConfigsResponse:
    throttle_time_ms: i32 = 0
    responses: tuple[ResourceResult, ...]


def refuse(request: AlterConfigsRequest, refusal: Refusal) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=tuple(
            ResourceResult(
                error_code=refusal.code,
                error_message=refusal.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        )
    )
