"""Builds the response to a request that is refused as a whole.

A message module may define `refuse` for its API. All other responses have an error code at the top
level, and need nothing more.
"""

from typing import Any, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.codec.declare import schema_of
from ottla.protocol.codec.layout import Slot, layout_of
from ottla.protocol.primitives import Fixed, LengthPrefixed


class Refusal(NamedTuple):
    """Why a request is refused, and the version of its response."""

    version: int
    code: ErrorCode
    message: str | None = None


def refuse_at_top_level(response: type[Any], refusal: Refusal) -> Any:
    """A response with an error code; other fields are at their defaults, null, zero or empty."""
    fields = schema_of(response).fields
    given: dict[str, Any] = {"error_code": refusal.code}
    if "error_message" in fields:
        given["error_message"] = refusal.message
    for slot in layout_of(response, refusal.version).slots:
        if fields[slot.name].is_required and slot.name not in given:
            given[slot.name] = _nothing(slot)
    return response(**given)


def _nothing(slot: Slot) -> Any:
    if slot.is_nullable:
        return None
    match slot.kind:
        case LengthPrefixed.TEXT:
            return ""
        case LengthPrefixed.BLOB:
            return b""
        case Fixed():
            return 0
        case _:
            return ()
