"""LeaveGroup (13) v0-5. v3 removes several members at once, also static ones by their instance id
(KIP-345); each is refused by itself. Gaps: none.
"""

from collections.abc import Awaitable, Hashable
from typing import cast

from ottla.broker.requests.authorization import group_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group import classic_routing
from ottla.coordinators.group.decision import Decision
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, Member

MANY_SINCE = 3


def handle(request: LeaveGroupRequest, call: Call) -> Awaitable[LeaveGroupResponse]:
    call.require(group_resource(request.group_id))
    if not request.group_id:
        raise PeerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    return _leave(request, call)


async def _leave(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    shard = call.services.coordinators.groups.of(request.group_id)
    leaving = request.members
    if call.version < MANY_SINCE:
        leaving = (Member(member_id=request.member_id),)

    def decide(ticket: Hashable, now_ms: int) -> Decision:
        return classic_routing.leave(shard.machine, request.group_id, leaving, ticket, now_ms)

    answer = cast(LeaveGroupResponse, await shard.ask(decide))
    if call.version < MANY_SINCE:
        return LeaveGroupResponse(error_code=answer.members[0].error_code)
    return answer
