"""Explores the model breadth first, and checks every state that can be reached."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from ottla.metadata.records import InvalidRecord, Partition, check
from tests.model.events import Rules, Step, steps, with_started_up
from tests.model.state import (
    Key,
    State,
    common_prefix,
    key_of,
    live_leader,
    state_of,
    with_promise_kept,
)


class Violation(NamedTuple):
    """A broken invariant, and the shortest run of events that breaks it."""

    invariant: str
    events: tuple[str, ...]


class Explored(NamedTuple):
    """`states` is the number of different states, `steps` of the events between them."""

    states: int
    steps: int
    cpu_seconds: float
    violation: Violation | None


class _Event(NamedTuple):
    """The last event of a run, and those before."""

    name: str
    previous: "_Event | None"


class Exploration:
    """Explores under these rules. `explore` returns at the first violation."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        # By members and brokers: logs, which make most states differ, decide nothing here.
        self._settled: dict[tuple[object, ...], bool] = {}

    def explore(self, starts: Iterable[State], depth: int) -> Explored:
        """All states within `depth` events."""
        began = time.process_time()
        frontier: list[tuple[Key, _Event | None]] = [(key_of(state), None) for state in starts]
        # Hashes of 64 bits: the keys would need gigabytes, and that two of them meet is unlikely.
        seen = {hash(key) for key, _ in frontier}
        count = 0
        for _ in range(depth):
            following: list[tuple[Key, _Event | None]] = []
            for key, event in frontier:
                before = state_of(key)
                for step in steps(before, self._rules):
                    count += 1
                    broken, after = self._checked(before, step)
                    if broken is not None:
                        violation = Violation(broken, _names(_Event(step.event, event)))
                        return Explored(len(seen), count, time.process_time() - began, violation)
                    reached = key_of(after)
                    if hash(reached) not in seen:
                        seen.add(hash(reached))
                        following.append((reached, _Event(step.event, event)))
            frontier = following
        return Explored(len(seen), count, time.process_time() - began, None)

    def _checked(self, before: State, step: Step) -> tuple[str | None, State]:
        """The invariant that a step breaks, and the state after it."""
        state = step.after
        if state.partition is not before.partition:
            broken = _broken_record(state.partition)
            if broken is not None:
                return broken, state
        promise, leader = state.promise, live_leader(state)
        if leader is not None:
            kept = common_prefix(promise.committed, state.logs[leader])
            if kept < len(promise.committed):
                if not promise.is_void:
                    return "3: a leader lacks committed records", state
                if not _is_loss_recorded(before.partition, state.partition):
                    return "4: a loss is not reported", state
                state = state._replace(promise=promise._replace(committed=promise.committed[:kept]))
        is_changed = state.partition is not before.partition or state.brokers is not before.brokers
        if is_changed and self._is_settled(state):
            if leader is None and _has_live_candidate(state):
                return "6: a live candidate does not lead", state
            state = with_started_up(state)
        return None, with_promise_kept(state)

    def _is_settled(self, state: State) -> bool:
        """Whether the partition agrees with its brokers."""
        part = state.partition
        # `broker_record` makes one object of equal records.
        records = [id(each) for each in state.brokers.values()]
        members = (part.leader, part.isr, part.elr, part.unclean, part.min_isr)
        situation = (*members, part.replicas, part.removing, *records)
        known = self._settled.get(situation)
        if known is None:
            known = self._rules.updated(part, state.brokers) is part
            self._settled[situation] = known
        return known


def _broken_record(part: Partition) -> str | None:
    """Invariant 6: what must hold of every partition's record."""
    try:
        check(part)
    except InvalidRecord as invalid:
        return f"6: {invalid}"
    return None if part.isr or part.elr or part.unclean else "6: nobody can ever lead"


def _is_loss_recorded(before: Partition, after: Partition) -> bool:
    """Whether the record of a new leader says that records may be lost: brokers report it."""
    return before.leader_epoch < after.leader_epoch == after.possible_loss_epoch


def _has_live_candidate(state: State) -> bool:
    members = (*state.partition.isr, *state.partition.elr)
    live = [each.incarnation for each in state.brokers.values() if each.is_live]
    return any(member in live for member in members)


def _names(event: _Event | None) -> tuple[str, ...]:
    names: list[str] = []
    while event is not None:
        names.append(event.name)
        event = event.previous
    return tuple(reversed(names))
