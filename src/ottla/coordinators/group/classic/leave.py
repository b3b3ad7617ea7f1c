"""LeaveGroup: many at once, each by member id, or by instance id for an operator."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.coordinators.group.classic import rebalance
from ottla.coordinators.group.classic.decision_builder import Draft
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.leave_group import LeaveGroupResponse, Member, MemberResult

if TYPE_CHECKING:
    from ottla.coordinators.group.classic.group import ClassicGroup


def leave(group: "ClassicGroup", leaving: Sequence[Member], draft: Draft) -> LeaveGroupResponse:
    """Each goes or is refused by itself, and the rest rebalances once."""
    before = len(group.roster)
    codes = [_leave_one(group, each, draft) for each in leaving]
    if len(group.roster) < before:
        rebalance.start_or_go_on(group, draft)
    elif ErrorCode.NONE in codes:
        # An id that was promised is no longer waited for.
        rebalance.try_complete(group, draft)
    return response(leaving, codes)


def nobody_left(leaving: Sequence[Member]) -> LeaveGroupResponse:
    """The answer where there is no such group."""
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


def _leave_one(group: "ClassicGroup", leaving: Member, draft: Draft) -> ErrorCode:
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if member_id in group.promised_ids:
        group.break_promise(member_id, draft)
        return ErrorCode.NONE
    if not member_id:
        # An operator knows instance ids only.
        member = None if instance_id is None else group.roster.instance(instance_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
    else:
        try:
            member = group.roster.check(member_id, instance_id)
        except PeerError as error:
            return error.code
    group.drop(member, draft)
    return ErrorCode.NONE
