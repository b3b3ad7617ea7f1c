"""DescribeClientQuotas (48) v0-1. v1 is flexible. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import f64, i8, i16, i32


@struct
class Component:
    entity_type: str
    match_type: i8
    match: str | None


@request(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest:
    components: tuple[Component, ...]
    strict: bool


@struct
class Entity:
    entity_type: str
    entity_name: str | None


@struct
class Quota:
    key: str
    value: f64


@struct
class Entry:
    entity: tuple[Entity, ...]
    values: tuple[Quota, ...]


@response(to=DescribeClientQuotasRequest)
class DescribeClientQuotasResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
    entries: tuple[Entry, ...] | None
