"""DescribeGroups (15) v0-6. Groups of the classic protocol; others are not found. Gaps: none."""

from ottla.broker.requests.authorization import group_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group.classic.group import ClassicGroup
from ottla.coordinators.group.machine import GroupMachine
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    Group,
)

# Before this version, a group that does not exist has the state Dead and no error.
MISSING_SINCE = 6
DEAD = "Dead"
EMPTY = "Empty"


async def handle(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    """Describes or refuses each group by itself. A group that is named twice is described once."""
    described = [await _describe(group_id, call) for group_id in dict.fromkeys(request.groups)]
    if request.include_authorized_operations:
        described = [
            group if group.error_code else _with_operations(group, call) for group in described
        ]
    return DescribeGroupsResponse(groups=tuple(described))


async def _describe(group_id: str, call: Call) -> Group:
    try:
        call.require(group_resource(group_id))
        shard = call.services.coordinators.groups.of(group_id)
        found = await shard.read(lambda _: _described(shard.machine, group_id))
    except PeerError as error:
        call.count_refusal(error.code)
        return _group(group_id, "", error.code)
    if found is not None:
        return found
    if call.version < MISSING_SINCE:
        return _group(group_id, DEAD)
    return _group(group_id, DEAD, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def _described(machine: GroupMachine, group_id: str) -> Group | None:
    """The group, if it exists and has the classic protocol."""
    group = machine.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return group.describe()
    if group is None and group_id in machine.offsets:
        return _group(group_id, EMPTY)
    return None


def _group(
    group_id: str, state: str, code: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> Group:
    return Group(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
    )


def _with_operations(group: Group, call: Call) -> Group:
    """The same group, with the operations that the client is authorized for."""
    return Group(
        error_code=group.error_code,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.group_state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_data,
        members=group.members,
        authorized_operations=call.authorized_operations(group_resource(group.group_id)),
    )
