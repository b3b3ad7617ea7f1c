"""The reconciliation of a member: the steps from its current to its target assignment. Pure.

A partition moves in two heartbeats: its owner is told to revoke it and reports that it has, and
only then it is assigned to the next member. So two members never own the same partition.

A member is STABLE when it owns its target assignment, UNREVOKED_PARTITIONS while it has partitions
to revoke, and UNRELEASED_PARTITIONS while it waits for other members to revoke theirs. `NEXT_STEP`
is the table of steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from ottla.coordinators.group.records import CurrentAssignmentSaved, Partitions
from ottla.protocol.primitives import Uuid

NO_PARTITIONS: Partitions = MappingProxyType({})


class MemberState(IntEnum):
    """The state of a member, by Kafka's numbers in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class Step(NamedTuple):
    state: MemberState
    # Whether the member gets the target's epoch, or keeps its own until it has revoked enough.
    reaches_target_epoch: bool


# By two conditions: it has partitions to revoke, other members still have partitions of its target.
NEXT_STEP: Mapping[tuple[bool, bool], Step] = MappingProxyType(
    {
        (True, True): Step(MemberState.UNREVOKED_PARTITIONS, reaches_target_epoch=False),
        (True, False): Step(MemberState.UNREVOKED_PARTITIONS, reaches_target_epoch=False),
        (False, True): Step(MemberState.UNRELEASED_PARTITIONS, reaches_target_epoch=True),
        (False, False): Step(MemberState.STABLE, reaches_target_epoch=True),
    }
)


class Target(NamedTuple):
    """A member's target assignment, and its epoch."""

    epoch: int
    partitions: Partitions


def may_step(
    current: CurrentAssignmentSaved, target: Target, owned: Partitions | None, *, must_shrink: bool
) -> bool:
    """Whether the member can take a step now.

    `must_shrink`: its target lost partitions without a new epoch, because it unsubscribed.
    """
    if current.state == MemberState.UNREVOKED_PARTITIONS:
        return not still_owns(owned, current.revoking)
    if current.state == MemberState.UNRELEASED_PARTITIONS:
        return True
    return current.epoch != target.epoch or must_shrink


def next_assignment(
    current: CurrentAssignmentSaved,
    target: Target,
    owned: Partitions | None,
    is_taken: Callable[[Uuid, int], bool],
) -> CurrentAssignmentSaved:
    """The current assignment after the next step of a member that `may_step`.

    `owned` are the partitions that it reports to own, None if it does not report them. `is_taken`
    tells whether another member has a partition.
    """
    assigned = _intersection(current.assigned, target.partitions)
    revoking = _difference(current.assigned, assigned)
    missing = _difference(target.partitions, assigned)
    free = {
        topic_id: indexes
        for topic_id, wanted in missing.items()
        if (indexes := tuple(index for index in wanted if not is_taken(topic_id, index)))
    }
    must_revoke = bool(revoking) and still_owns(owned, revoking)
    step = NEXT_STEP[must_revoke, free != missing]
    since = assigned_since(current)
    if not step.reaches_target_epoch:
        return replace(
            current,
            state=step.state,
            assigned=assigned,
            revoking=revoking,
            assigned_epochs=_epochs(assigned, since, target.epoch),
            revoking_epochs=_epochs(revoking, since, target.epoch),
        )
    complete = _union(assigned, free)
    after = replace(
        current,
        state=step.state,
        assigned=complete,
        revoking=NO_PARTITIONS,
        assigned_epochs=_epochs(complete, since, target.epoch),
        revoking_epochs=NO_PARTITIONS,
    )
    return at_epoch(after, target.epoch)


def at_epoch(current: CurrentAssignmentSaved, epoch: int) -> CurrentAssignmentSaved:
    """The same at another epoch; the previous one is kept, because an answer may have been lost."""
    if epoch == current.epoch:
        return current
    return replace(current, epoch=epoch, previous_epoch=current.epoch)


def assigned_since(current: CurrentAssignmentSaved) -> dict[tuple[Uuid, int], int]:
    """The epoch at which each assigned partition was assigned; commits are checked against it."""
    return _since(current.assigned, current.assigned_epochs, current.epoch)


def revoking_since(current: CurrentAssignmentSaved) -> dict[tuple[Uuid, int], int]:
    """The same for the partitions that the member has yet to revoke."""
    return _since(current.revoking, current.revoking_epochs, current.epoch)


def uniform_epochs(partitions: Partitions, epoch: int) -> Partitions:
    """The epochs of partitions that were all assigned at the same epoch."""
    return {topic: (epoch,) * len(indexes) for topic, indexes in partitions.items()}


def _since(partitions: Partitions, epochs: Partitions, unknown: int) -> dict[tuple[Uuid, int], int]:
    """Partitions of older records have no epochs: `unknown` is used."""
    return {
        (topic, index): epoch
        for topic, indexes in partitions.items()
        for index, epoch in zip(indexes, epochs.get(topic, (unknown,) * len(indexes)), strict=True)
    }


def _epochs(
    partitions: Partitions, since: Mapping[tuple[Uuid, int], int], epoch: int
) -> Partitions:
    """The known epochs, and `epoch` for new partitions."""
    return {
        topic: tuple(since.get((topic, index), epoch) for index in indexes)
        for topic, indexes in partitions.items()
    }


def held(current: CurrentAssignmentSaved) -> Partitions:
    """All partitions that a member may be reading."""
    return _union(current.assigned, current.revoking)


def still_owns(owned: Partitions | None, partitions: Partitions) -> bool:
    """Whether a member that reports `owned` may still own one of `partitions`; None may be all."""
    if owned is None:
        return True
    return any(
        not set(indexes).isdisjoint(owned.get(topic, ())) for topic, indexes in partitions.items()
    )


def includes(partitions: Partitions, part: Partitions) -> bool:
    """Whether `partitions` has all of `part`."""
    return all(set(indexes) <= set(partitions.get(topic, ())) for topic, indexes in part.items())


def only_topics(partitions: Partitions, topics: frozenset[Uuid]) -> Partitions:
    return {topic: indexes for topic, indexes in partitions.items() if topic in topics}


def _intersection(left: Partitions, right: Partitions) -> Partitions:
    return _without_empty(
        {topic: set(indexes) & set(right.get(topic, ())) for topic, indexes in left.items()}
    )


def _difference(left: Partitions, right: Partitions) -> Partitions:
    return _without_empty(
        {topic: set(indexes) - set(right.get(topic, ())) for topic, indexes in left.items()}
    )


def _union(left: Partitions, right: Partitions) -> Partitions:
    return _without_empty(
        {topic: {*left.get(topic, ()), *right.get(topic, ())} for topic in {**left, **right}}
    )


def _without_empty(sets: Mapping[Uuid, set[int]]) -> Partitions:
    return {topic: tuple(sorted(indexes)) for topic, indexes in sorted(sets.items()) if indexes}
