"""DeleteGroups (42) v0-2. Each group is deleted with its committed offsets, or refused by itself.
Gaps: none.
"""

from ottla.broker.requests.authorization import group_resource
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    GroupResult,
)


async def handle(request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=tuple(
            [
                GroupResult(group_id=group_id, error_code=await _delete(group_id, call))
                for group_id in dict.fromkeys(request.groups_names)
            ]
        )
    )


async def _delete(group_id: str, call: Call) -> ErrorCode:
    try:
        call.require(group_resource(group_id))
        shard = call.services.coordinators.groups.of(group_id)
        for _ in range(shard.machine.deletion_steps(group_id)):
            await shard.write(lambda _: shard.machine.delete_group(group_id))
    except PeerError as error:
        call.count_refusal(error.code)
        return error.code
    return ErrorCode.NONE
