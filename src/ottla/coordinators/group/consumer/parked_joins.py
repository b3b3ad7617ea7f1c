"""Joins of consumer groups that wait for each other, to be decided together.

The members of a starting application join within milliseconds of each other. A join is parked until
no other member has joined its group for a while. Then one target is computed for all, and no member
gets partitions that the next join would revoke.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from ottla.coordinators.group.consumer.timers import assignment_timer
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.runtime.decision import NOTHING, Answered, TimerSet
from ottla.errors import PeerError

# A join waits until no other member has joined for this long; the first one waits at most the
# maximum.
JOIN_WAIT_MS = 10
JOIN_WAIT_MS_MAX = 100


class ParkedJoin(NamedTuple):
    """The ticket of a waiting join, and the function that decides it later, or raises PeerError."""

    ticket: Hashable
    decide: Callable[[int], Decision]


class _GroupJoins:
    """The parked joins of one group, and when they are due."""

    __slots__ = ("due_ms", "parked", "postpone_left_ms")

    def __init__(self, now_ms: int) -> None:
        self.parked: deque[ParkedJoin] = deque()
        self.due_ms = now_ms + JOIN_WAIT_MS
        self.postpone_left_ms = JOIN_WAIT_MS_MAX - JOIN_WAIT_MS

    def postpone(self, now_ms: int) -> None:
        """Restarts the wait, up to the maximum."""
        wanted_ms = max(now_ms + JOIN_WAIT_MS - self.due_ms, 0)
        postponed_ms = min(wanted_ms, self.postpone_left_ms)
        self.due_ms += postponed_ms
        self.postpone_left_ms -= postponed_ms


class ParkedJoins:
    """The parked joins of all groups of a shard. They are not stored: a load starts without any."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, _GroupJoins] = {}

    def park(self, group_id: str, join: ParkedJoin, now_ms: int, *, is_new: bool) -> TimerSet:
        """Parks a join and returns the timer of its group; a new member postpones the timer."""
        joins = self._groups.get(group_id)
        if joins is None:
            joins = self._groups[group_id] = _GroupJoins(now_ms)
        elif is_new:
            joins.postpone(now_ms)
        # A wall clock that was set back must not extend the wait.
        joins.due_ms = min(joins.due_ms, now_ms + JOIN_WAIT_MS)
        joins.parked.append(join)
        return assignment_timer(group_id, joins.due_ms)

    def decide_next(self, group_id: str, now_ms: int) -> Decision:
        """The timer is due: decides the group's first parked join and sets the timer for the next.

        Each join is its own decision: the first one computes the target for all of them.
        """
        joins = self._groups.get(group_id)
        if joins is None:
            return NOTHING
        ticket, decide = joins.parked.popleft()
        try:
            decision = decide(now_ms)
        except PeerError as error:
            decision = Decision(answers=(Answered(ticket, error),))
        if not joins.parked:
            del self._groups[group_id]
            return decision
        # Later joins no longer postpone the timer.
        joins.due_ms, joins.postpone_left_ms = now_ms, 0
        return decision._replace(timers=(*decision.timers, assignment_timer(group_id, now_ms)))
