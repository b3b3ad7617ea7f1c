"""Routes a heartbeat to its group, which is found, created, or upgraded from a classic group.

The shard knows a new group only after its first record is replayed, so a refused join leaves no
group behind.
"""

from ottla.coordinators.group.classic.group import ClassicGroup
from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.parked_joins import ParkedJoin
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import Group
from ottla.coordinators.group.machine import GroupMachine
from ottla.coordinators.group.migration import upgrade
from ottla.coordinators.group.records import ClassicGroupTombstone, ConsumerGroupSaved
from ottla.coordinators.runtime.decision import NOTHING
from ottla.errors import ErrorCode, PeerError


def handle_heartbeat(machine: GroupMachine, rules: ConsumerRules, beat: Heartbeat) -> Decision:
    """The group's decision. PeerError if it refuses, or if no group can accept the heartbeat."""
    group = _find_group(machine, rules, beat)
    if isinstance(group, ConsumerGroup):
        return group.heartbeat(beat)
    return _first_heartbeat(group, rules, beat)


def add_joining_member(machine: GroupMachine, rules: ConsumerRules, beat: Heartbeat) -> Decision:
    """Saves a joining member; `handle_heartbeat` has to follow soon, and answers.

    PeerError as `handle_heartbeat`. Nothing is saved in a classic group with members: the heartbeat
    upgrades it.
    """
    group = _find_group(machine, rules, beat)
    if isinstance(group, ConsumerGroup):
        return group.add_member(beat)
    if group is not None and not group.is_empty:
        return NOTHING
    return _replace_empty(group, ConsumerGroup(beat.request.group_id, rules).add_member(beat))


def handle_join(machine: GroupMachine, rules: ConsumerRules, beat: Heartbeat) -> Decision:
    """Saves a joining member and parks its heartbeat, to be decided together with others.

    PeerError as `handle_heartbeat`; a later refusal is the answer to the heartbeat.
    """
    decision = add_joining_member(machine, rules, beat)

    def decide(now_ms: int) -> Decision:
        return handle_heartbeat(machine, rules, beat._replace(now_ms=now_ms))

    timer = machine.joins.park(
        beat.request.group_id,
        ParkedJoin(beat.ticket, decide),
        beat.now_ms,
        is_new=bool(decision.records),
    )
    return decision._replace(timers=(*decision.timers, timer))


def _find_group(machine: GroupMachine, rules: ConsumerRules, beat: Heartbeat) -> Group | None:
    """The group, of either type; None if it does not exist and can be created."""
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
    """The first member by the consumer protocol creates the group or upgrades a classic one."""
    if isinstance(group, ClassicGroup) and not group.is_empty:
        return _upgrade(group, rules, beat)
    return _replace_empty(group, ConsumerGroup(beat.request.group_id, rules).heartbeat(beat))


def _replace_empty(group: Group | None, decision: Decision) -> Decision:
    """The first decision of a new group, which may replace an empty group of the other type."""
    before = group.tombstones() if group is not None else ()
    return decision._replace(records=before + decision.records)


def _upgrade(group: ClassicGroup, rules: ConsumerRules, beat: Heartbeat) -> Decision:
    before = upgrade(group, rules, beat.topics, beat.now_ms)
    upgraded = ConsumerGroup(group.group_id, rules)
    for record in before.records:
        if not isinstance(record, ClassicGroupTombstone):
            upgraded.replay(record)
    decision = upgraded.heartbeat(beat)
    records = before.records
    if not any(isinstance(record, ConsumerGroupSaved) for record in decision.records):
        # A static member rejoined with the same subscription. The epoch is raised in any case,
        # because the classic leader may not have assigned all partitions.
        saved = upgraded.saved
        raised = ConsumerGroupSaved(group.group_id, saved.epoch + 1, saved.metadata_hash)
        upgraded.replay(raised)
        records, decision = (*records, raised), upgraded.heartbeat(beat)
    return Decision(
        records + decision.records,
        before.answers + decision.answers,
        before.timers + decision.timers,
    )


def consumer_group(machine: GroupMachine, group_id: str) -> ConsumerGroup:
    """The consumer group. GROUP_ID_NOT_FOUND if it does not exist or is a classic group."""
    group = machine.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group_id in machine:
        raise not_a_consumer_group(group_id)
    raise PeerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def not_a_consumer_group(group_id: str) -> PeerError:
    """The refusal of a request of the consumer protocol for a classic group."""
    return PeerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
