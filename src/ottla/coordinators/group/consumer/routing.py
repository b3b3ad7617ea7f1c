"""Where a heartbeat comes to its group: found, made for who joins, or made of a classic one.

A group that is made here is known to the shard once its first record is replayed, and not before:
of a join that is refused nothing is left.
"""

from ottla.coordinators.group.classic.group import ClassicGroup
from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.parked_joins import ParkedJoin
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import Group
from ottla.coordinators.group.machine import GroupMachine
from ottla.coordinators.group.migration import moved_up
from ottla.coordinators.group.records import ClassicGroupForgotten, ConsumerGroupSaved
from ottla.coordinators.runtime.decision import NOTHING
from ottla.errors import ErrorCode, PeerError


def take_heartbeat(machine: GroupMachine, rules: ConsumerRules, beat: Heartbeat) -> Decision:
    """What the group decides. PeerError if it refuses, or if there is none that could take it."""
    group = _found(machine, rules, beat)
    if isinstance(group, ConsumerGroup):
        return group.heartbeat(beat)
    return _first_heartbeat(group, rules, beat)


def take_arrival(machine: GroupMachine, rules: ConsumerRules, beat: Heartbeat) -> Decision:
    """Takes down who joins; its heartbeat is to be taken soon after, and answers.

    PeerError as `take_heartbeat`. Nothing is decided of a classic group's members: the heartbeat
    makes the group another.
    """
    group = _found(machine, rules, beat)
    if isinstance(group, ConsumerGroup):
        return group.arrive(beat)
    if group is not None and not group.is_empty:
        return NOTHING
    return _in_place_of(group, ConsumerGroup(beat.request.group_id, rules).arrive(beat))


def take_join(machine: GroupMachine, rules: ConsumerRules, beat: Heartbeat) -> Decision:
    """Takes down who joins, and parks its heartbeat: it is decided together with others.

    PeerError as `take_heartbeat`; what the heartbeat is refused with later is its answer.
    """
    arrival = take_arrival(machine, rules, beat)

    def decide(now_ms: int) -> Decision:
        return take_heartbeat(machine, rules, beat._replace(now_ms=now_ms))

    timer = machine.joins.park(
        beat.request.group_id,
        ParkedJoin(beat.ticket, decide),
        beat.now_ms,
        is_new=bool(arrival.records),
    )
    return arrival._replace(timers=(*arrival.timers, timer))


def _found(machine: GroupMachine, rules: ConsumerRules, beat: Heartbeat) -> Group | None:
    """The group, of either kind; None if there is none, and room for one."""
    group_id = beat.request.group_id
    group = machine.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        group.rules = rules
        return group
    joins = beat.request.member_epoch == SpecialEpoch.JOIN
    if group is not None and not group.is_empty and not joins:
        raise not_a_consumer_group(group_id)
    if not joins:
        raise PeerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if group_id not in machine and len(machine) >= rules.groups_max:
        raise PeerError(
            ErrorCode.POLICY_VIOLATION, f"There is no room for more groups than {len(machine)}."
        )
    return group


def _first_heartbeat(group: Group | None, rules: ConsumerRules, beat: Heartbeat) -> Decision:
    """The first member by the consumer protocol makes the group, of what there was before."""
    if isinstance(group, ClassicGroup) and not group.is_empty:
        return _moved_up(group, rules, beat)
    return _in_place_of(group, ConsumerGroup(beat.request.group_id, rules).heartbeat(beat))


def _in_place_of(group: Group | None, decision: Decision) -> Decision:
    """The first decision of a group, where an empty one may have been."""
    before = group.forgotten() if group is not None else ()
    return decision._replace(records=before + decision.records)


def _moved_up(group: ClassicGroup, rules: ConsumerRules, beat: Heartbeat) -> Decision:
    before = moved_up(group, rules, beat.topics, beat.now_ms)
    made = ConsumerGroup(group.group_id, rules)
    for record in before.records:
        if not isinstance(record, ClassicGroupForgotten):
            made.replay(record)
    decision = made.heartbeat(beat)
    records = before.records
    if not any(isinstance(record, ConsumerGroupSaved) for record in decision.records):
        # A static member came back and wants what it wanted. What the classic group has assigned
        # need not be all there is: it is shared out anew in any case.
        raised = ConsumerGroupSaved(group.group_id, made.saved.epoch + 1, made.saved.metadata_hash)
        made.replay(raised)
        records, decision = (*records, raised), made.heartbeat(beat)
    return Decision(
        records + decision.records,
        before.answers + decision.answers,
        before.timers + decision.timers,
    )


def consumer_group(machine: GroupMachine, group_id: str) -> ConsumerGroup:
    """GROUP_ID_NOT_FOUND if there is none, or if it is of the classic protocol."""
    group = machine.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group_id in machine:
        raise not_a_consumer_group(group_id)
    raise PeerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def not_a_consumer_group(group_id: str) -> PeerError:
    """What is answered to who asks by the consumer protocol for a group of the classic one."""
    return PeerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
