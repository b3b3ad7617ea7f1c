"""SyncGroup: the leader hands in what it assigned, everybody fetches theirs."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

from ottla.coordinators.group.classic import rebalance, responses
from ottla.coordinators.group.classic.decision_builder import Draft
from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from ottla.coordinators.group.classic.group import ClassicGroup


def sync(group: "ClassicGroup", request: SyncGroupRequest, ticket: Hashable, draft: Draft) -> None:
    _check(group, request)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        raise PeerError(ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances")
    group.unsynced.discard(request.member_id)
    if not group.unsynced:
        draft.syncing_ended()
    if group.state is ClassicGroupState.STABLE:
        draft.answer(ticket, responses.synced(group, group.roster[request.member_id].assignment))
        return
    group.waiting.sync(request.member_id, ticket, draft)
    if group.roster.leader == request.member_id:
        _assign(group, request, draft)


def _check(group: "ClassicGroup", request: SyncGroupRequest) -> None:
    group.check_member(request.member_id, request.group_instance_id, request.generation_id)
    for told, expected in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol),
    ):
        # Older versions do not tell.
        if told is not None and told != expected:
            raise PeerError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group has {expected}, not {told}"
            )


def _assign(group: "ClassicGroup", request: SyncGroupRequest, draft: Draft) -> None:
    """The leader's assignment is saved, and told to all who wait. Members that it leaves out get
    nothing; whom it names besides is ignored."""
    assigned = {each.member_id: each.assignment for each in request.assignments}
    record = group.saved_with(assigned, draft.now_ms)
    if group.is_too_long(record):
        for member_id in tuple(group.waiting.syncs):
            group.waiting.refuse_sync(member_id, ErrorCode.UNKNOWN_SERVER_ERROR, draft)
            draft.expect_beat(member_id, group.roster[member_id].session_timeout_ms)
        rebalance.start(group, draft)
        return
    draft.save(record)
    for member_id, ticket in group.waiting.syncs.items():
        draft.answer(ticket, responses.synced(group, assigned.get(member_id, b"")))
        draft.expect_beat(member_id, group.roster[member_id].session_timeout_ms)
    group.waiting.syncs.clear()
