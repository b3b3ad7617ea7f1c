"""SyncGroup: the leader sends the assignments, and each member fetches its own."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

from ottla.coordinators.group.classic import rebalance, responses
from ottla.coordinators.group.classic.decision_builder import DecisionBuilder
from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from ottla.coordinators.group.classic.group import ClassicGroup


def sync(
    group: "ClassicGroup", request: SyncGroupRequest, ticket: Hashable, builder: DecisionBuilder
) -> None:
    _check(group, request)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        raise PeerError(ErrorCode.REBALANCE_IN_PROGRESS, "the group rebalances")
    group.unsynced.discard(request.member_id)
    if not group.unsynced:
        builder.cancel_sync_timer()
    if group.state is ClassicGroupState.STABLE:
        builder.answer(ticket, responses.synced(group, group.roster[request.member_id].assignment))
        return
    group.parked.sync(request.member_id, ticket, builder)
    if group.roster.leader == request.member_id:
        _assign(group, request, builder)


def _check(group: "ClassicGroup", request: SyncGroupRequest) -> None:
    group.check_member(request.member_id, request.group_instance_id, request.generation_id)
    for given, expected in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol),
    ):
        # Older versions lack these fields.
        if given is not None and given != expected:
            raise PeerError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group has {expected}, not {given}"
            )


def _assign(group: "ClassicGroup", request: SyncGroupRequest, builder: DecisionBuilder) -> None:
    """Saves the leader's assignment and answers all waiting syncs.

    Members without an assignment get an empty one; assignments of other member ids are ignored.
    """
    assigned = {each.member_id: each.assignment for each in request.assignments}
    record = group.saved_with(assigned, builder.now_ms)
    if group.is_too_long(record):
        for member_id in tuple(group.parked.syncs):
            group.parked.refuse_sync(member_id, ErrorCode.UNKNOWN_SERVER_ERROR, builder)
            builder.set_session_timer(member_id, group.roster[member_id].session_timeout_ms)
        rebalance.start(group, builder)
        return
    builder.save(record)
    for member_id, ticket in group.parked.syncs.items():
        builder.answer(ticket, responses.synced(group, assigned.get(member_id, b"")))
        builder.set_session_timer(member_id, group.roster[member_id].session_timeout_ms)
    group.parked.syncs.clear()
