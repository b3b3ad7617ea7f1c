"""AlterClientQuotas (49) v0-1. v1 is flexible. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import f64, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Entity:
    entity_type: str
    entity_name: str | None


@struct
class Operation:
    key: str
    value: f64
    remove: bool


@struct
class Entry:
    entity: tuple[Entity, ...]
    ops: tuple[Operation, ...]


@request(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasRequest:
    entries: tuple[Entry, ...]
    validate_only: bool


@struct
class EntryResult:
    error_code: i16
    error_message: str | None = None
    entity: tuple[Entity, ...]


@response(to=AlterClientQuotasRequest)
class AlterClientQuotasResponse:
    throttle_time_ms: i32 = 0
    entries: tuple[EntryResult, ...]


def refuse(request: AlterClientQuotasRequest, refusal: Refusal) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=tuple(
            EntryResult(error_code=refusal.code, error_message=refusal.message, entity=entry.entity)
            for entry in request.entries
        )
    )
