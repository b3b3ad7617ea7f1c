"""IncrementalAlterConfigs (44) v0-1. v1 is flexible. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i8, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Config:
    name: str
    config_operation: i8
    value: str | None


@struct
class Resource:
    resource_type: i8
    resource_name: str
    configs: tuple[Config, ...]


@request(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest:
    resources: tuple[Resource, ...]
    validate_only: bool


@struct
class ResourceResult:
    error_code: i16
    error_message: str | None = None
    resource_type: i8
    resource_name: str


@response(to=IncrementalAlterConfigsRequest)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: i32 = 0
    responses: tuple[ResourceResult, ...]


def refuse(
    request: IncrementalAlterConfigsRequest, refusal: Refusal
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
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
