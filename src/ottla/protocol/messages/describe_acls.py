"""DescribeAcls (29) v1-3. v1 adds pattern types (KIP-290), v3 users (KIP-373). Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i8, i16, i32


@request(key=29, versions=(1, 3), flexible=2)
class DescribeAclsRequest:
    resource_type_filter: i8
    resource_name_filter: str | None
    pattern_type_filter: i8 = 3
    principal_filter: str | None
    host_filter: str | None
    operation: i8
    permission_type: i8


@struct
class Acl:
    principal: str
    host: str
    operation: i8
    permission_type: i8


@struct
class Resource:
    resource_type: i8
    resource_name: str
    pattern_type: i8 = 3
    acls: tuple[Acl, ...]


@response(to=DescribeAclsRequest)
class DescribeAclsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    resources: tuple[Resource, ...]
