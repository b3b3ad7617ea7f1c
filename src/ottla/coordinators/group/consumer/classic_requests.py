"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in a consumer group. Pure."""

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.coordinators.group.classic import leave as leaving_classic
from ottla.coordinators.group.classic import responses
from ottla.coordinators.group.classic.join import Joiner
from ottla.coordinators.group.consumer import classic_members
from ottla.coordinators.group.consumer.member import ConsumerGroupMember
from ottla.coordinators.group.consumer.member_update import Outcome, UpdateContext
from ottla.coordinators.group.consumer.timers import Timer
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.records import ConsumerGroupSaved
from ottla.coordinators.runtime.decision import Answered, TimerSet
from ottla.errors import ErrorCode
from ottla.protocol.messages import leave_group
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinators.group.consumer.group import ConsumerGroup


def join(
    group: "ConsumerGroup",
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    context: UpdateContext,
) -> Decision:
    """Answers at once with the member's own assignment: it does not wait for other joins."""
    classic_members.check_join(group.saved, group.rules, request)
    if classic_members.needs_id(request, joiner.version):
        refused = responses.join_refused(ErrorCode.MEMBER_ID_REQUIRED, joiner.consumer_member_id)
        return Decision(answers=(Answered(ticket, refused),))
    outcome = classic_members.decide_join(
        group.saved, group.checks, group.rules, request, joiner, context
    )
    answered = (Answered(ticket, classic_members.joined(outcome.after)),)
    if outcome.sender.replaces is not None:
        classic = _downgrade(group, outcome, outcome.sender.replaces, context.now_ms)
        if classic is not None:
            return classic._replace(answers=answered)
    sync_ms = context.now_ms + outcome.after.saved.rebalance_timeout_ms
    return Decision(
        records=outcome.records,
        answers=answered,
        timers=(
            *group.timers_after(outcome, context.now_ms),
            Timer.SYNC.at(group.group_id, outcome.after.member_id, sync_ms),
        ),
    )


def _downgrade(
    group: "ConsumerGroup", outcome: Outcome, replaced: str, now_ms: int
) -> Decision | None:
    """A static member that rejoined as a classic one may have been the last of the other protocol.

    The classic group keeps all assignments, unless a new assignment is due.
    """
    saved = group.saved
    if saved.members[replaced].is_classic:
        return None
    others = [
        ConsumerGroupMember(each, saved.current(name))
        for name, each in saved.members.items()
        if name != replaced
    ]
    members = [*others, outcome.after]
    is_stale = saved.epoch > saved.target_epoch or any(
        isinstance(record, ConsumerGroupSaved) for record in outcome.records
    )
    must_rejoin = is_stale or not all(group.is_settled(each.current) for each in members)
    return group.downgrade(members, now_ms, must_rejoin=must_rejoin)


def sync(
    group: "ConsumerGroup", request: SyncGroupRequest, ticket: Hashable, now_ms: int
) -> Decision:
    """Answers with the member's assignment; it joins again if there was a new target meanwhile."""
    member = classic_members.find_classic_member(
        group.saved, request.member_id, request.group_instance_id, request.generation_id
    )
    classic_members.check_protocol(member, request)
    if classic_members.is_sync_outdated(group.saved, member):
        refused = responses.sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)
        return Decision(
            answers=(Answered(ticket, refused),),
            timers=tuple(_ask_to_rejoin(group, member, now_ms)),
        )
    response = SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=classic_members.assignment(member, group.topics),
    )
    return Decision(
        answers=(Answered(ticket, response),),
        timers=(
            Timer.SYNC.off(group.group_id, member.member_id),
            group.session_timer(member.saved, now_ms),
        ),
    )


def heartbeat(
    group: "ConsumerGroup", request: HeartbeatRequest, ticket: Hashable, now_ms: int
) -> Decision:
    """Renews the session; the answer says whether to join again."""
    member = classic_members.find_classic_member(
        group.saved, request.member_id, request.group_instance_id, request.generation_id
    )
    timers = [group.session_timer(member.saved, now_ms)]
    code = ErrorCode.NONE
    if classic_members.should_rejoin(group.saved, group.rules, member, now_ms):
        code = ErrorCode.REBALANCE_IN_PROGRESS
        timers += _ask_to_rejoin(group, member, now_ms)
    answer = Answered(ticket, HeartbeatResponse(error_code=code))
    return Decision(answers=(answer,), timers=tuple(timers))


def leave(
    group: "ConsumerGroup",
    leaving: Sequence[leave_group.Member],
    ticket: Hashable,
    now_ms: int,
) -> Decision:
    """Each member is removed or refused on its own."""
    found = classic_members.find_leaving(group.saved, leaving)
    answered = (Answered(ticket, leaving_classic.response(leaving, found.codes)),)
    if not found.member_ids:
        return Decision(answers=answered)
    return group.left(found.member_ids, now_ms)._replace(answers=answered)


def _ask_to_rejoin(
    group: "ConsumerGroup", member: ConsumerGroupMember, now_ms: int
) -> Iterator[TimerSet]:
    """The join timer runs from the first answer that asked the member to join again."""
    if member.member_id not in group.asked_to_rejoin:
        group.asked_to_rejoin.add(member.member_id)
        due_ms = now_ms + member.saved.rebalance_timeout_ms
        yield Timer.JOIN.at(group.group_id, member.member_id, due_ms)
