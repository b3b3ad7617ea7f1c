"""LeaveGroup: any number of members, by member id, or by instance id if an admin tool asks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.coordinators.group.classic import rebalance
from ottla.coordinators.group.classic.decision_builder import DecisionBuilder
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.leave_group import LeaveGroupResponse, Member, MemberResult

if TYPE_CHECKING:
    from ottla.coordinators.group.classic.group import ClassicGroup


def leave(
    group: "ClassicGroup", leaving: Sequence[Member], builder: DecisionBuilder
) -> LeaveGroupResponse:
    """Each member is removed or refused on its own; the others rebalance once."""
    before = len(group.roster)
    codes = [_leave_one(group, each, builder) for each in leaving]
    if len(group.roster) < before:
        rebalance.start_or_try_complete(group, builder)
    elif ErrorCode.NONE in codes:
        # A pending member has left: the group no longer waits for it.
        rebalance.try_complete(group, builder)
    return response(leaving, codes)


def unknown_members_response(leaving: Sequence[Member]) -> LeaveGroupResponse:
    """The answer if the group does not exist."""
    return response(leaving, [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving))


def response(leaving: Sequence[Member], codes: Sequence[ErrorCode]) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=tuple(
            MemberResult(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code
            )
            for each, code in zip(leaving, codes, strict=True)
        ),
    )


def _leave_one(group: "ClassicGroup", leaving: Member, builder: DecisionBuilder) -> ErrorCode:
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if member_id in group.pending_ids:
        group.remove_pending(member_id, builder)
        return ErrorCode.NONE
    if not member_id:
        # An admin tool knows only the instance id.
        member = None if instance_id is None else group.roster.instance(instance_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    else:
        try:
            member = group.roster.check(member_id, instance_id)
        except PeerError as error:
            return error.code
    group.drop(member, builder)
    return ErrorCode.NONE
