"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in a group of the consumer protocol. Pure."""

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.coordinators.group.classic import leave as leaving_classic
from ottla.coordinators.group.classic import responses
from ottla.coordinators.group.classic.join import Joiner
from ottla.coordinators.group.consumer import classic_members
from ottla.coordinators.group.consumer.member import ConsumerGroupMember
from ottla.coordinators.group.consumer.member_update import Moment, Outcome
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
    at: Moment,
) -> Decision:
    """Answered at once: the member has what it has, whoever else is still to join."""
    classic_members.check_join(group.saved, group.rules, request)
    if classic_members.needs_id(request, joiner.version):
        refused = responses.join_refused(ErrorCode.MEMBER_ID_REQUIRED, joiner.bare_id)
        return Decision(answers=(Answered(ticket, refused),))
    outcome = classic_members.decide_join(
        group.saved, group.checked, group.rules, request, joiner, at
    )
    answered = (Answered(ticket, classic_members.joined(outcome.after)),)
    if outcome.arrival.replaces is not None:
        classic = _moved_down(group, outcome, outcome.arrival.replaces, at.now_ms)
        if classic is not None:
            return classic._replace(answers=answered)
    sync_ms = at.now_ms + outcome.after.saved.rebalance_timeout_ms
    return Decision(
        records=outcome.records,
        answers=answered,
        timers=(
            *group.timers_after(outcome, at.now_ms),
            Timer.SYNC.at(group.group_id, outcome.after.member_id, sync_ms),
        ),
    )


def _moved_down(
    group: "ConsumerGroup", outcome: Outcome, replaced: str, now_ms: int
) -> Decision | None:
    """A static member that came back by the classic protocol may have been the last of the other.

    The classic group goes on with what everybody has, unless there is something to share out.
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
    return group.moved_down(members, now_ms, must_rejoin=must_rejoin)


def sync(
    group: "ConsumerGroup", request: SyncGroupRequest, ticket: Hashable, now_ms: int
) -> Decision:
    """What the member owns; if partitions were shared out anew since it joined, it joins again."""
    member = classic_members.find_classic_member(
        group.saved, request.member_id, request.group_instance_id, request.generation_id
    )
    classic_members.check_protocol(member, request)
    if classic_members.is_overtaken(group.saved, member):
        refused = responses.sync_refused(ErrorCode.REBALANCE_IN_PROGRESS)
        return Decision(
            answers=(Answered(ticket, refused),), timers=tuple(_summon(group, member, now_ms))
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
    """The member is alive, and hears whether to join again."""
    member = classic_members.find_classic_member(
        group.saved, request.member_id, request.group_instance_id, request.generation_id
    )
    timers = [group.session_timer(member.saved, now_ms)]
    code = ErrorCode.NONE
    if classic_members.is_to_rejoin(group.saved, group.rules, member, now_ms):
        code = ErrorCode.REBALANCE_IN_PROGRESS
        timers += _summon(group, member, now_ms)
    answer = Answered(ticket, HeartbeatResponse(error_code=code))
    return Decision(answers=(answer,), timers=tuple(timers))


def leave(
    group: "ConsumerGroup",
    leaving: Sequence[leave_group.Member],
    ticket: Hashable,
    now_ms: int,
) -> Decision:
    """Each goes or is refused by itself."""
    found = classic_members.find_leaving(group.saved, leaving)
    answered = (Answered(ticket, leaving_classic.response(leaving, found.codes)),)
    if not found.member_ids:
        return Decision(answers=answered)
    return group.left(found.member_ids, now_ms)._replace(answers=answered)


def _summon(group: "ConsumerGroup", member: ConsumerGroupMember, now_ms: int) -> Iterator[TimerSet]:
    """The time to join again runs from when the member was first told."""
    if member.member_id not in group.summoned:
        group.summoned.add(member.member_id)
        due_ms = now_ms + member.saved.rebalance_timeout_ms
        yield Timer.JOIN.at(group.group_id, member.member_id, due_ms)
