"""FindCoordinator (10) v0-6. v1 adds transactions, v4 takes several keys (KIP-699), v6 share groups
(KIP-932). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct, until
from ottla.protocol.primitives import i8, i16, i32
from ottla.protocol.refusal import Refusal


@request(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest:
    key: str = until(3, default="")
    key_type: i8 = since(1, default=0)
    coordinator_keys: tuple[str, ...] = since(4, default=())


@struct
class Coordinator:
    key: str
    node_id: i32
    host: str
    port: i32
    error_code: i16
    error_message: str | None = None


@response(to=FindCoordinatorRequest)
class FindCoordinatorResponse:
    throttle_time_ms: i32 = since(1, default=0, ignorable=True)
    error_code: i16 = until(3, default=0)
    error_message: str | None = since(1, until=3, default=None, ignorable=True)
    node_id: i32 = until(3, default=0)
    host: str = until(3, default="")
    port: i32 = until(3, default=0)
    coordinators: tuple[Coordinator, ...] = since(4, default=())


def refuse(request: FindCoordinatorRequest, refusal: Refusal) -> FindCoordinatorResponse:
    if refusal.version < 4:
        return FindCoordinatorResponse(
            error_code=refusal.code,
            error_message=refusal.message,
            node_id=-1,
            port=-1,
        )
    return FindCoordinatorResponse(
        coordinators=tuple(
            Coordinator(
                key=key,
                node_id=-1,
                host="",
                port=-1,
                error_code=refusal.code,
                error_message=refusal.message or "",
            )
            for key in request.coordinator_keys
        )
    )
