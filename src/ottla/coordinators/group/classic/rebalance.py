"""From one generation to the next: who wants to stay joins, then all get what the leader assigns.

`start` calls the members together, `try_complete` makes a generation of them once all have come,
`complete` of those who have.
"""

from typing import TYPE_CHECKING

from ottla.coordinators.group.classic import responses
from ottla.coordinators.group.classic.decision_builder import Draft
from ottla.coordinators.group.classic.rules import PROMISED_WAIT_MS
from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.coordinators.group.classic.group import ClassicGroup
    from ottla.coordinators.group.classic.member import ClassicGroupMember


def start_or_go_on(group: "ClassicGroup", draft: Draft) -> None:
    """Something changed: a rebalance starts, or the one under way may be complete now."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        try_complete(group, draft)
    else:
        start(group, draft)


def start(group: "ClassicGroup", draft: Draft) -> None:
    """Members are told to join again at their next heartbeat or sync."""
    _stop_syncing(group, draft)
    is_first = group.state is ClassicGroupState.EMPTY
    group.move(ClassicGroupState.PREPARING_REBALANCE, draft.now_ms)
    if is_first:
        _wait_for_more(group, draft)
    elif has_all_joined(group):
        complete(group, draft)
    else:
        draft.end_joining_in(group.roster.rebalance_timeout_ms)


def try_complete(group: "ClassicGroup", draft: Draft) -> None:
    """Makes the next generation if everybody has joined. A first one is not ended early."""
    is_preparing = group.state is ClassicGroupState.PREPARING_REBALANCE
    if is_preparing and group.first_delay_left_ms is None and has_all_joined(group):
        complete(group, draft)


def has_all_joined(group: "ClassicGroup") -> bool:
    return len(group.roster) == len(group.waiting.joins) and not group.promised_ids


def time_is_up(group: "ClassicGroup", draft: Draft) -> None:
    """The joining timer: a first rebalance waits on while members keep coming."""
    if group.state is not ClassicGroupState.PREPARING_REBALANCE:
        return
    left_ms = group.first_delay_left_ms
    if left_ms and group.has_newcomer:
        group.has_newcomer = False
        delay_ms = min(group.limits.initial_rebalance_delay_ms, left_ms)
        group.first_delay_left_ms = left_ms - delay_ms
        draft.end_joining_in(delay_ms)
    elif left_ms is not None and group.promised_ids:
        # They were given their ids and are on their way: without them all would join twice.
        group.first_delay_left_ms = None
        draft.end_joining_in(PROMISED_WAIT_MS)
    else:
        complete(group, draft)


def complete(group: "ClassicGroup", draft: Draft) -> None:
    """The next generation is those who joined, and static members whether they did or not."""
    for member in tuple(group.roster):
        if not member.is_static and member.member_id not in group.waiting.joins:
            group.drop(member, draft)
    if group.roster and not group.roster.elect(group.waiting.joins):
        # Only static members that do not answer: their sessions decide.
        draft.end_joining_in(group.roster.rebalance_timeout_ms)
        return
    group.first_delay_left_ms = None
    draft.joining_ended()
    if group.roster:
        _begin_generation(group, draft)
    else:
        draft.save(group.saved_empty(draft.now_ms))


def lose(group: "ClassicGroup", member: "ClassicGroupMember", draft: Draft) -> None:
    """A member is gone, by its will or not."""
    group.drop(member, draft)
    start_or_go_on(group, draft)


def syncing_took_too_long(group: "ClassicGroup", draft: Draft) -> None:
    """The syncing timer: who joined and did not fetch its assignment has failed."""
    if not group.unsynced or group.state not in (
        ClassicGroupState.COMPLETING_REBALANCE,
        ClassicGroupState.STABLE,
    ):
        return
    for member_id in tuple(group.unsynced):
        group.drop(group.roster[member_id], draft)
    start(group, draft)


def _wait_for_more(group: "ClassicGroup", draft: Draft) -> None:
    delay_ms = group.limits.initial_rebalance_delay_ms
    group.has_newcomer = False
    group.first_delay_left_ms = max(group.roster.rebalance_timeout_ms - delay_ms, 0)
    draft.end_joining_in(delay_ms)


def _begin_generation(group: "ClassicGroup", draft: Draft) -> None:
    group.generation += 1
    group.protocol = group.roster.chosen_protocol()
    group.move(ClassicGroupState.COMPLETING_REBALANCE, draft.now_ms)
    for member in group.roster:
        ticket = group.waiting.joins.pop(member.member_id, None)
        if ticket is not None:
            draft.answer(ticket, responses.joined(group, member.member_id))
        member.is_newcomer = False
        group.unsynced.add(member.member_id)
        draft.expect_beat(member.member_id, member.session_timeout_ms)
    draft.end_syncing_in(group.roster.rebalance_timeout_ms)


def _stop_syncing(group: "ClassicGroup", draft: Draft) -> None:
    """Who waits for an assignment of this generation will get none."""
    for member_id in tuple(group.waiting.syncs):
        group.waiting.refuse_sync(member_id, ErrorCode.REBALANCE_IN_PROGRESS, draft)
        draft.expect_beat(member_id, group.roster[member_id].session_timeout_ms)
    group.unsynced.clear()
    draft.syncing_ended()
