"""How an error fills the reply to a request, where the error is not one item's but the whole's.

A message module that defines `refuse` says it for its API; the others have an error code at the top
of their response, and nothing more to say.
"""

from typing import Any, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.codec.declare import schema_of
from ottla.protocol.codec.layout import Slot, layout_of
from ottla.protocol.primitives import Fixed, Span


class Refusal(NamedTuple):
    """Why a request is refused, and the version its reply is encoded in."""

    version: int
    code: ErrorCode
    message: str | None = None


def refuse_at_the_top(response: type[Any], refusal: Refusal) -> Any:
    """A response with its error code set and the rest at its default, null, zero or empty."""
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
        case Span.TEXT:
            return ""
        case Span.BLOB:
            return b""
        case Fixed():
            return 0
        case _:
            return ()
