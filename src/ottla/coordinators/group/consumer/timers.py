"""The timers of a consumer group and of its members, each with what it means when it is due."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from ottla.coordinators.runtime.decision import TimerSet

# When the joins of a group that wait for each other are decided.
ASSIGNMENT_TIMER = "assignment"


class Timer(StrEnum):
    """What a member has to do in time; if it does not, it is out."""

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


class Duty(NamedTuple):
    """What a timer waits for, and how long."""

    what: str
    time: str


DUTIES: Mapping[Timer, Duty] = MappingProxyType(
    {
        Timer.SESSION: Duty(
            "to renew its session", "the group's session timeout, or a classic member's own"
        ),
        Timer.REBALANCE: Duty("to revoke the partitions it was told to", "its rebalance timeout"),
        Timer.JOIN: Duty("classic members: to join again when told to", "its rebalance timeout"),
        Timer.SYNC: Duty("classic members: to sync after a join", "its rebalance timeout"),
    }
)


def assignment_timer(group_id: str, due_ms: int) -> TimerSet:
    return TimerSet(f"{ASSIGNMENT_TIMER}/{group_id}", due_ms)


def all_off(group_id: str, member_id: str) -> tuple[TimerSet, ...]:
    """Nothing is expected of this member any more."""
    return tuple(timer.off(group_id, member_id) for timer in Timer)
