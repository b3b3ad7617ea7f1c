"""Joins of consumer groups that wait for each other, to be decided together.

Members of an application that starts join within milliseconds of each other. A join is parked until
no other member has joined its group for a while: one target for all of them spares each member the
partitions that the next one would take away again.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from ottla.coordinators.group.consumer.timers import assignment_timer
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.runtime.decision import NOTHING, Answered, TimerSet
from ottla.errors import PeerError

# For how long no other member has to join, and for how long the first join waits at most.
JOIN_WAIT_MS = 10
JOIN_WAIT_MS_MAX = 100


class ParkedJoin(NamedTuple):
    """Who waits, and what decides its join once it is time to. PeerError if that refuses."""

    ticket: Hashable
    decide: Callable[[int], Decision]


class _GroupJoins:
    """Those of one group, when they are decided, and for how long that may still be put off."""

    __slots__ = ("due_ms", "parked", "put_off_left_ms")

    def __init__(self, now_ms: int) -> None:
        self.parked: deque[ParkedJoin] = deque()
        self.due_ms = now_ms + JOIN_WAIT_MS
        self.put_off_left_ms = JOIN_WAIT_MS_MAX - JOIN_WAIT_MS

    def put_off(self, now_ms: int) -> None:
        """Until nobody has joined for a while from now on, within limits."""
        wanted_ms = max(now_ms + JOIN_WAIT_MS - self.due_ms, 0)
        put_off_ms = min(wanted_ms, self.put_off_left_ms)
        self.due_ms += put_off_ms
        self.put_off_left_ms -= put_off_ms


class ParkedJoins:
    """Those of all groups of a shard. They do not last: after a load nobody waits."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, _GroupJoins] = {}

    def park(self, group_id: str, join: ParkedJoin, now_ms: int, *, is_new: bool) -> TimerSet:
        """When the group's joins are decided: a new member puts that off, within limits."""
        joins = self._groups.get(group_id)
        if joins is None:
            joins = self._groups[group_id] = _GroupJoins(now_ms)
        elif is_new:
            joins.put_off(now_ms)
        # A wall clock that was set back must not keep anybody waiting.
        joins.due_ms = min(joins.due_ms, now_ms + JOIN_WAIT_MS)
        joins.parked.append(join)
        return assignment_timer(group_id, joins.due_ms)

    def decide_next(self, group_id: str, now_ms: int) -> Decision:
        """The timer is due: the first of the group's joins, and the timer for the next one.

        Each is a decision of its own: the first brings the target that the others step to.
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
        # Whoever joins from now on puts nothing off.
        joins.due_ms, joins.put_off_left_ms = now_ms, 0
        return decision._replace(timers=(*decision.timers, assignment_timer(group_id, now_ms)))
