"""A heartbeat of the consumer protocol: whose it is, and what it comes to. Pure."""

from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    as_it_says,
    check_instance,
    new_member,
    successor,
    unknown_member,
)
from ottla.coordinators.group.consumer.member_update import (
    Arrival,
    Checked,
    Deciding,
    Moment,
    Outcome,
    Statement,
)
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.saved_group import SavedGroup
from ottla.coordinators.group.records import Record
from ottla.errors import ErrorCode, PeerError


def decide_heartbeat(
    state: SavedGroup, checked: Checked, rules: ConsumerRules, beat: Heartbeat
) -> Outcome:
    """For every heartbeat but those that say goodbye. A PeerError, and nothing is to change."""
    arrival = find_member(state, rules, beat)
    return _deciding(state, checked, rules, arrival, beat).outcome()


def decide_arrival(
    state: SavedGroup, checked: Checked, rules: ConsumerRules, beat: Heartbeat
) -> tuple[Record, ...]:
    """What makes a new member one of the group, before anything is shared out; else nothing."""
    arrival = find_member(state, rules, beat)
    if not arrival.is_new:
        return ()
    return _deciding(state, checked, rules, arrival, beat).arrived()


def _deciding(
    state: SavedGroup, checked: Checked, rules: ConsumerRules, arrival: Arrival, beat: Heartbeat
) -> Deciding:
    at = Moment(beat.now_ms, beat.topics, beat.match_topics)
    said = Statement(as_it_says(arrival.before.saved, beat), beat.owned, at)
    return Deciding(state, checked, rules, arrival, said)


def find_member(state: SavedGroup, rules: ConsumerRules, beat: Heartbeat) -> Arrival:
    """Whose heartbeat it is. Refused: who is unknown, out of date, or one too many."""
    request = beat.request
    known = _known_member(state, beat)
    if known is not None and known.member_id == beat.member_id:
        known.check_epoch(request.member_epoch, beat.owned)
        return Arrival(known)
    if known is not None:
        if not known.is_classic:
            _check_released(known, beat.member_id)
        return Arrival(successor(known, beat.member_id), replaces=known.member_id)
    if request.member_epoch != SpecialEpoch.JOIN:
        raise unknown_member(state.group_id, beat.member_id, request.instance_id)
    check_room(state, rules)
    return Arrival(new_member(state.group_id, beat.member_id), is_new=True)


def _known_member(state: SavedGroup, beat: Heartbeat) -> ConsumerGroupMember | None:
    """Of a static member the one with its instance, whatever it is called."""
    request = beat.request
    if request.instance_id is None:
        return state.member(beat.member_id)
    known = state.static_member(request.instance_id)
    if known is not None and request.member_epoch != SpecialEpoch.JOIN:
        check_instance(known, beat.member_id)
    return known


def _check_released(member: ConsumerGroupMember, member_id: str) -> None:
    if not member.has_stepped_aside:
        raise PeerError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {member.saved.instance_id} cannot join the"
            f" group because the instance id is owned by {member.member_id} member.",
        )


def check_room(state: SavedGroup, rules: ConsumerRules) -> None:
    """GROUP_MAX_SIZE_REACHED if one more would be one too many."""
    if len(state.members) >= rules.size_max:
        raise PeerError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {rules.size_max} members.",
        )
