"""Heartbeat (12) v0-4. Renews a member's session and says whether to join again. v3 adds static
members (KIP-345). Gaps: none.
"""

from collections.abc import Awaitable, Hashable
from typing import cast

from ottla.broker.requests.authorization import group_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group import classic_routing
from ottla.coordinators.group.decision import Decision
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    request: HeartbeatRequest, call: Call
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    call.require(group_resource(request.group_id))
    if not request.group_id:
        raise PeerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    try:
        shard = call.services.coordinators.groups.of(request.group_id)
    except PeerError as error:
        if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # The load restarts the session timeout, so the member need not react.
            return HeartbeatResponse(error_code=ErrorCode.NONE)
        raise

    def decide(ticket: Hashable, now_ms: int) -> Decision:
        return classic_routing.heartbeat(shard.machine, request, ticket, now_ms)

    return cast(Awaitable[HeartbeatResponse], shard.ask(decide))
