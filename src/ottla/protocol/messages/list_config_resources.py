"""ListConfigResources (74) v0-1. v1 adds all resource types (KIP-1142). Gaps: none."""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i8, i16, i32


@request(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest:
    resource_types: tuple[i8, ...] = since(1, default=())


@struct
class ConfigResource:
    resource_name: str
    resource_type: i8 = since(1, default=16, ignorable=True)


@response(to=ListConfigResourcesRequest)
class ListConfigResourcesResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    config_resources: tuple[ConfigResource, ...]
