"""Finds the member of a heartbeat of the consumer protocol, and decides on it. Pure."""

from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    check_instance,
    new_member,
    successor,
    unknown_member,
    updated_by_heartbeat,
)
from ottla.coordinators.group.consumer.member_update import (
    MemberUpdate,
    Outcome,
    Sender,
    SubscriptionChecks,
    UpdateContext,
    UpdateDecider,
)
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.saved_group import SavedGroup
from ottla.coordinators.group.records import Record
from ottla.errors import ErrorCode, PeerError


def decide_heartbeat(
    state: SavedGroup, checks: SubscriptionChecks, rules: ConsumerRules, beat: Heartbeat
) -> Outcome:
    """The outcome of any heartbeat that does not leave. PeerError if it is refused."""
    sender = find_member(state, rules, beat)
    return _decider(state, checks, rules, sender, beat).outcome()


def decide_new_member(
    state: SavedGroup, checks: SubscriptionChecks, rules: ConsumerRules, beat: Heartbeat
) -> tuple[Record, ...]:
    """The records of a new member before its first assignment; none if the member is not new."""
    sender = find_member(state, rules, beat)
    if not sender.is_new:
        return ()
    return _decider(state, checks, rules, sender, beat).new_member_records()


def _decider(
    state: SavedGroup,
    checks: SubscriptionChecks,
    rules: ConsumerRules,
    sender: Sender,
    beat: Heartbeat,
) -> UpdateDecider:
    context = UpdateContext(beat.now_ms, beat.topics, beat.match_topics)
    update = MemberUpdate(updated_by_heartbeat(sender.before.saved, beat), beat.owned, context)
    return UpdateDecider(state, checks, rules, sender, update)


def find_member(state: SavedGroup, rules: ConsumerRules, beat: Heartbeat) -> Sender:
    """The member of a heartbeat. PeerError if it is unknown, fenced, or the group is full."""
    request = beat.request
    known = _known_member(state, beat)
    if known is not None and known.member_id == beat.member_id:
        known.check_epoch(request.member_epoch, beat.owned)
        return Sender(known)
    if known is not None:
        if not known.is_classic:
            _check_released(known, beat.member_id)
        return Sender(successor(known, beat.member_id), replaces=known.member_id)
    if request.member_epoch != SpecialEpoch.JOIN:
        raise unknown_member(state.group_id, beat.member_id, request.instance_id)
    check_room(state, rules)
    return Sender(new_member(state.group_id, beat.member_id), is_new=True)


def _known_member(state: SavedGroup, beat: Heartbeat) -> ConsumerGroupMember | None:
    """A static member is found by its instance id, whatever its member id is."""
    request = beat.request
    if request.instance_id is None:
        return state.member(beat.member_id)
    known = state.static_member(request.instance_id)
    if known is not None and request.member_epoch != SpecialEpoch.JOIN:
        check_instance(known, beat.member_id)
    return known


def _check_released(member: ConsumerGroupMember, member_id: str) -> None:
    if not member.has_left_temporarily:
        raise PeerError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {member.saved.instance_id} cannot join the"
            f" group because the instance id is owned by {member.member_id} member.",
        )


def check_room(state: SavedGroup, rules: ConsumerRules) -> None:
    """GROUP_MAX_SIZE_REACHED if the group has its maximum size."""
    if len(state.members) >= rules.size_max:
        raise PeerError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {rules.size_max} members.",
        )
