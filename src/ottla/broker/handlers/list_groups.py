"""ListGroups (16) v0-5. The groups that this broker coordinates. Gaps: none."""

from ottla.broker.requests.authorization import CLUSTER, group_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group.coordinator import GroupShard
from ottla.coordinators.group.machine import GroupListing
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.list_groups import Group, ListGroupsRequest, ListGroupsResponse


async def handle(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    """Filters ignore case. An unknown state or type matches nothing."""
    states = {state.lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    sees_all = call.may(CLUSTER)
    groups: list[Group] = []
    for shard in call.services.coordinators.groups:
        groups += [
            Group(
                group_id=each.group_id,
                protocol_type=each.protocol_type,
                group_state=each.state_name,
                group_type=each.group_type,
            )
            for each in await _listed(shard)
            if (not states or each.state_name.lower() in states)
            and (not types or each.group_type in types)
            and (sees_all or call.may(group_resource(each.group_id)))
        ]
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=tuple(groups))


async def _listed(shard: GroupShard) -> list[GroupListing]:
    try:
        return await shard.read(lambda _: list(shard.machine.listed()))
    except PeerError as error:
        if error.code is ErrorCode.NOT_COORDINATOR:
            return []  # another broker lists them now
        raise
