"""Where a heartbeat comes to its group: found, made for who joins, or made of an empty other one.

A group that is made here is known to the shard once its first record is replayed, and not before:
of a join that is refused nothing is left.
"""

from ottla.coordinators.decision import Decision
from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.consumer.requests import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.records import Record, encode
from ottla.coordinators.group.state import GroupState
from ottla.errors import ErrorCode, PeerError


def take_heartbeat(state: GroupState, rules: ConsumerRules, beat: Heartbeat) -> Decision:
    """What the group decides. PeerError if it refuses, or if there is none that could take it."""
    group_id = beat.request.group_id
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        group.rules = rules
        return _checked(group.heartbeat(beat), rules)
    before: tuple[Record, ...] = ()
    if group is not None:
        # Its members speak the classic protocol. Once all have left it can become another.
        if not group.is_empty:
            raise not_a_consumer_group(group_id)
        before = group.forgotten()
    if beat.request.member_epoch != SpecialEpoch.JOIN:
        raise PeerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if group_id not in state and len(state) >= rules.groups_max:
        raise PeerError(
            ErrorCode.POLICY_VIOLATION, f"There is no room for more groups than {len(state)}."
        )
    decision = ConsumerGroup(group_id, rules).heartbeat(beat)
    return _checked(decision._replace(records=(*before, *decision.records)), rules)


def _checked(decision: Decision, rules: ConsumerRules) -> Decision:
    """A decision that cannot be written is none: the shard could not go on after it."""
    size = sum(len(key) + len(value or b"") for key, value in map(encode, decision.records))
    if size > rules.saved_bytes_max:
        raise PeerError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"The group would change by {size} bytes at once."
        )
    return decision


def consumer_group(state: GroupState, group_id: str) -> ConsumerGroup:
    """GROUP_ID_NOT_FOUND if there is none, or if it is of the classic protocol."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group_id in state:
        raise not_a_consumer_group(group_id)
    raise PeerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def not_a_consumer_group(group_id: str) -> PeerError:
    """What is answered to who asks by the consumer protocol for a group of the classic one."""
    return PeerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
