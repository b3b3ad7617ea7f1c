"""Responses to joins and syncs, with the nulls and defaults of Kafka's."""

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.protocol.messages import join_group
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinators.group.classic.group import ClassicGroup


def joined(group: "ClassicGroup", member_id: str) -> JoinGroupResponse:
    """The group's generation; only the leader gets the list of members."""
    return in_generation(group, member_id, group.roster.leader)


def in_generation(
    group: "ClassicGroup",
    member_id: str,
    leader: str | None,
    *,
    is_assignment_skipped: bool = False,
) -> JoinGroupResponse:
    """The group's generation with this leader."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or "",
        skip_assignment=is_assignment_skipped,
        member_id=member_id,
        members=_all_members(group) if member_id == leader else (),
    )


def _all_members(group: "ClassicGroup") -> tuple[join_group.Member, ...]:
    return tuple(
        join_group.Member(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.roster
    )


def join_refused(
    code: int, member_id: str, *, protocol_name: str | None = None
) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, protocol_name=protocol_name, leader="", member_id=member_id, members=()
    )


def synced(group: "ClassicGroup", assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=assignment,
    )


def sync_refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")
