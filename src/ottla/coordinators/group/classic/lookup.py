"""Classic groups among all groups of a shard."""

from typing import TYPE_CHECKING

from ottla.coordinators.group.classic.group import ClassicGroup, created
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import GroupType
from ottla.coordinators.runtime.decision import NOTHING
from ottla.errors import ErrorCode, PeerError

if TYPE_CHECKING:
    from ottla.coordinators.group.machine import GroupMachine


def find(machine: "GroupMachine", group_id: str) -> ClassicGroup | None:
    """The group, if it is there and of the classic protocol."""
    group = machine.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) else None


def require(machine: "GroupMachine", group_id: str) -> ClassicGroup:
    """The group; who claims to be a member of one that is not there is unknown."""
    group = find(machine, group_id)
    if group is None:
        raise PeerError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no classic group {group_id}")
    return group


def open_to_join(machine: "GroupMachine", group_id: str, now_ms: int) -> Decision:
    """A group that somebody wants to join is there afterwards: it is created, or converted if it
    is of the other protocol and has no members. PeerError if there is no room."""
    group = machine.created(group_id, GroupType.CLASSIC)
    if isinstance(group, ClassicGroup):
        is_saved = group.saved is not None
        return NOTHING if is_saved else Decision(records=(created(group_id, now_ms),))
    if not group.is_empty:
        return NOTHING
    return Decision(records=(*group.forgotten(), created(group_id, now_ms)))
