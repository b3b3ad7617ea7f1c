"""Names, keys and duties of a consumer group's timers; `group` decides when they start and stop."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from ottla.coordinators.runtime.decision import TimerSet

# The timer of a group: its parked joins are decided when it is due.
ASSIGNMENT_TIMER = "assignment"


class Timer(StrEnum):
    """The timers of a member, which is removed from the group when one of them expires."""

    SESSION = "session"
    REBALANCE = "rebalance"
    JOIN = "join"
    SYNC = "sync"

    def key(self, group_id: str, member_id: str) -> str:
        return f"{self.value}/{group_id}/{member_id}"

    def at(self, group_id: str, member_id: str, due_ms: int) -> TimerSet:
        return TimerSet(self.key(group_id, member_id), due_ms)

    def off(self, group_id: str, member_id: str) -> TimerSet:
        return TimerSet(self.key(group_id, member_id), None)


class TimerDuty(NamedTuple):
    """The duty of a member before a timer expires, and the timeout."""

    duty: str
    timeout: str


TIMER_DUTIES: Mapping[Timer, TimerDuty] = MappingProxyType(
    {
        Timer.SESSION: TimerDuty(
            "to renew its session", "the group's session timeout, or a classic member's own"
        ),
        Timer.REBALANCE: TimerDuty(
            "to revoke the partitions it was told to", "its rebalance timeout"
        ),
        Timer.JOIN: TimerDuty(
            "classic members: to join again when told to", "its rebalance timeout"
        ),
        Timer.SYNC: TimerDuty("classic members: to sync after a join", "its rebalance timeout"),
    }
)


def assignment_timer(group_id: str, due_ms: int) -> TimerSet:
    return TimerSet(f"{ASSIGNMENT_TIMER}/{group_id}", due_ms)


def all_off(group_id: str, member_id: str) -> tuple[TimerSet, ...]:
    """Cancels all timers of a member."""
    return tuple(timer.off(group_id, member_id) for timer in Timer)
