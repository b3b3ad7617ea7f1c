"""Finds and creates the classic groups of a shard."""

from typing import TYPE_CHECKING

from ottla.coordinators.group.classic.group import ClassicGroup, new_group_record
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import GroupType
from ottla.coordinators.runtime.decision import NOTHING
from ottla.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from ottla.coordinators.group.machine import GroupMachine


def find(machine: "GroupMachine", group_id: str) -> ClassicGroup | None:
    """The group, if it exists and is a classic one."""
    group = machine.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) else None


def require(machine: "GroupMachine", group_id: str) -> ClassicGroup:
    """The group. UNKNOWN_MEMBER_ID if it does not exist: then it has no such member."""
    group = find(machine, group_id)
    if group is None:
        raise PeerError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no classic group {group_id}")
    return group


def open_to_join(machine: "GroupMachine", group_id: str, now_ms: int) -> Decision:
    """Creates the group for a join, or converts an empty consumer group.

    PeerError if there are too many groups.
    """
    group = machine.get_or_create(group_id, GroupType.CLASSIC)
    if isinstance(group, ClassicGroup):
        is_saved = group.saved is not None
        return NOTHING if is_saved else Decision(records=(new_group_record(group_id, now_ms),))
    if not group.is_empty:
        return NOTHING
    return Decision(records=(*group.tombstones(), new_group_record(group_id, now_ms)))
