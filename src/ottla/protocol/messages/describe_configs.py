"""DescribeConfigs (32) v1-4. v1 adds sources and synonyms (KIP-226), v3 types and documentation
(KIP-569). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i8, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Resource:
    resource_type: i8
    resource_name: str
    configuration_keys: tuple[str, ...] | None


@request(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsRequest:
    resources: tuple[Resource, ...]
    include_synonyms: bool = False
    include_documentation: bool = since(3, default=False)


@struct
class Synonym:
    name: str
    value: str | None
    source: i8


@struct
class Config:
    name: str
    value: str | None
    read_only: bool
    config_source: i8 = -1
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    config_type: i8 = since(3, default=0, ignorable=True)
    documentation: str | None = since(3, default="", ignorable=True)


@struct
class ResourceResult:
    error_code: i16
    error_message: str | None = None
    resource_type: i8
    resource_name: str
    configs: tuple[Config, ...]


@response(to=DescribeConfigsRequest)
class DescribeConfigsResponse:
    throttle_time_ms: i32 = 0
    results: tuple[ResourceResult, ...]


def refuse(request: DescribeConfigsRequest, refusal: Refusal) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=tuple(
            ResourceResult(
                error_code=refusal.code,
                error_message=refusal.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=(),
            )
            for resource in request.resources
        )
    )
