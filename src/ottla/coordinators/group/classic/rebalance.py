"""The rebalance of a classic group: all members join again, then sync the leader's assignments.

`start` asks the members to join, `try_complete` begins the next generation once all have joined,
and `complete` begins it with the members that have joined.
"""

from typing import TYPE_CHECKING

from ottla.coordinators.group.classic import responses
from ottla.coordinators.group.classic.decision_builder import DecisionBuilder
from ottla.coordinators.group.classic.rules import PENDING_MEMBER_WAIT_MS
from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinators.group.classic.group import ClassicGroup
    from ottla.coordinators.group.classic.member import ClassicGroupMember


def start_or_try_complete(group: "ClassicGroup", builder: DecisionBuilder) -> None:
    """The membership changed: starts a rebalance, or completes the current one if possible."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        try_complete(group, builder)
    else:
        start(group, builder)


def start(group: "ClassicGroup", builder: DecisionBuilder) -> None:
    """Starts a rebalance: the next heartbeat or sync of a member tells it to join again."""
    _stop_syncing(group, builder)
    is_first = group.state is ClassicGroupState.EMPTY
    group.move(ClassicGroupState.PREPARING_REBALANCE, builder.now_ms)
    if is_first:
        _delay_first(group, builder)
    elif has_all_joined(group):
        complete(group, builder)
    else:
        builder.set_join_timer(group.roster.rebalance_timeout_ms)


def try_complete(group: "ClassicGroup", builder: DecisionBuilder) -> None:
    """Begins the next generation if all members have joined, unless the initial delay runs."""
    is_preparing = group.state is ClassicGroupState.PREPARING_REBALANCE
    if is_preparing and group.first_delay_left_ms is None and has_all_joined(group):
        complete(group, builder)


def has_all_joined(group: "ClassicGroup") -> bool:
    return len(group.roster) == len(group.parked.joins) and not group.pending_ids


def join_timer_expired(group: "ClassicGroup", builder: DecisionBuilder) -> None:
    """The join timer: a first rebalance is extended for as long as new members join."""
    if group.state is not ClassicGroupState.PREPARING_REBALANCE:
        return
    left_ms = group.first_delay_left_ms
    if left_ms and group.has_new_member:
        group.has_new_member = False
        delay_ms = min(group.rules.initial_rebalance_delay_ms, left_ms)
        group.first_delay_left_ms = left_ms - delay_ms
        builder.set_join_timer(delay_ms)
    elif left_ms is not None and group.pending_ids:
        # Pending members join soon: without them all members would have to join again.
        group.first_delay_left_ms = None
        builder.set_join_timer(PENDING_MEMBER_WAIT_MS)
    else:
        complete(group, builder)


def complete(group: "ClassicGroup", builder: DecisionBuilder) -> None:
    """The next generation has all members that have joined, and all static members."""
    for member in tuple(group.roster):
        if not member.is_static and member.member_id not in group.parked.joins:
            group.drop(member, builder)
    if group.roster and not group.roster.elect(group.parked.joins):
        # Only static members that have not joined are left: wait until their sessions expire.
        builder.set_join_timer(group.roster.rebalance_timeout_ms)
        return
    group.first_delay_left_ms = None
    builder.cancel_join_timer()
    if group.roster:
        _begin_generation(group, builder)
    else:
        builder.save(group.saved_empty(builder.now_ms))


def remove_member(
    group: "ClassicGroup", member: "ClassicGroupMember", builder: DecisionBuilder
) -> None:
    """A member has left or failed."""
    group.drop(member, builder)
    start_or_try_complete(group, builder)


def sync_timer_expired(group: "ClassicGroup", builder: DecisionBuilder) -> None:
    """The sync timer: members that have joined and not fetched their assignment have failed."""
    if not group.unsynced or group.state not in (
        ClassicGroupState.COMPLETING_REBALANCE,
        ClassicGroupState.STABLE,
    ):
        return
    for member_id in tuple(group.unsynced):
        group.drop(group.roster[member_id], builder)
    start(group, builder)


def _delay_first(group: "ClassicGroup", builder: DecisionBuilder) -> None:
    delay_ms = group.rules.initial_rebalance_delay_ms
    group.has_new_member = False
    group.first_delay_left_ms = max(group.roster.rebalance_timeout_ms - delay_ms, 0)
    builder.set_join_timer(delay_ms)


def _begin_generation(group: "ClassicGroup", builder: DecisionBuilder) -> None:
    group.generation += 1
    group.protocol = group.roster.chosen_protocol()
    group.move(ClassicGroupState.COMPLETING_REBALANCE, builder.now_ms)
    for member in group.roster:
        ticket = group.parked.joins.pop(member.member_id, None)
        if ticket is not None:
            builder.answer(ticket, responses.joined(group, member.member_id))
        member.is_new = False
        group.unsynced.add(member.member_id)
        builder.set_session_timer(member.member_id, member.session_timeout_ms)
    builder.set_sync_timer(group.roster.rebalance_timeout_ms)


def _stop_syncing(group: "ClassicGroup", builder: DecisionBuilder) -> None:
    """Refuses the syncs that wait for an assignment of this generation."""
    for member_id in tuple(group.parked.syncs):
        group.parked.refuse_sync(member_id, ErrorCode.REBALANCE_IN_PROGRESS, builder)
        builder.set_session_timer(member_id, group.roster[member_id].session_timeout_ms)
    group.unsynced.clear()
    builder.cancel_sync_timer()
