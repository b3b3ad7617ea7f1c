"""Where a member stands on its way to what it is to own, and its next step there. Pure.

A partition changes hands in two heartbeats: its owner is told to give it up and reports that it
did, and only then the next one is given it. So nobody ever owns what somebody else does.

A member is STABLE when it owns its target, UNREVOKED_PARTITIONS while it has yet to give up
something, and UNRELEASED_PARTITIONS while it waits for others to do so. `NEXT_STEP` is the table.
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
    """By Kafka's numbers, as the log has them."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class Step(NamedTuple):
    state: MemberState
    # Whether the member now has the target's epoch, or stays at its own until it gave up enough.
    reaches_target_epoch: bool


# By what is in the way: partitions it still has to give up, partitions others still have.
NEXT_STEP: Mapping[tuple[bool, bool], Step] = MappingProxyType(
    {
        (True, True): Step(MemberState.UNREVOKED_PARTITIONS, reaches_target_epoch=False),
        (True, False): Step(MemberState.UNREVOKED_PARTITIONS, reaches_target_epoch=False),
        (False, True): Step(MemberState.UNRELEASED_PARTITIONS, reaches_target_epoch=True),
        (False, False): Step(MemberState.STABLE, reaches_target_epoch=True),
    }
)


class Target(NamedTuple):
    """What a member is to own, and the epoch of that decision."""

    epoch: int
    partitions: Partitions


def may_step(
    current: CurrentAssignmentSaved, target: Target, owned: Partitions | None, *, must_shrink: bool
) -> bool:
    """Whether there is a step to take now.

    `must_shrink`: its target shrank without a new epoch, since it no longer wants a topic.
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
    """The next step of a member that `may_step`.

    `owned` is what it reports to own, None if it does not say. `is_taken` tells whether somebody
    else has a partition.
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
    """The same at another epoch. The one before is kept, for an answer may have been lost."""
    if epoch == current.epoch:
        return current
    return replace(current, epoch=epoch, previous_epoch=current.epoch)


def assigned_since(current: CurrentAssignmentSaved) -> dict[tuple[Uuid, int], int]:
    """At which epoch a member was given each partition that it has: by it a commit is judged."""
    return _since(current.assigned, current.assigned_epochs, current.epoch)


def revoking_since(current: CurrentAssignmentSaved) -> dict[tuple[Uuid, int], int]:
    """The same of those that it has yet to give up."""
    return _since(current.revoking, current.revoking_epochs, current.epoch)


def epochs_alike(partitions: Partitions, epoch: int) -> Partitions:
    """Epochs as the log has them, where all partitions were given at one."""
    return {topic: (epoch,) * len(indexes) for topic, indexes in partitions.items()}


def _since(partitions: Partitions, epochs: Partitions, unknown: int) -> dict[tuple[Uuid, int], int]:
    """What was written before epochs were counts as of the member's own."""
    return {
        (topic, index): epoch
        for topic, indexes in partitions.items()
        for index, epoch in zip(indexes, epochs.get(topic, (unknown,) * len(indexes)), strict=True)
    }


def _epochs(
    partitions: Partitions, since: Mapping[tuple[Uuid, int], int], epoch: int
) -> Partitions:
    """Those of before, and `epoch` for partitions that are new."""
    return {
        topic: tuple(since.get((topic, index), epoch) for index in indexes)
        for topic, indexes in partitions.items()
    }


def held(current: CurrentAssignmentSaved) -> Partitions:
    """All that a member may be reading."""
    return _union(current.assigned, current.revoking)


def still_owns(owned: Partitions | None, partitions: Partitions) -> bool:
    """Whether a member that reports this may have any of these. Who says nothing may have all."""
    if owned is None:
        return True
    return any(
        not set(indexes).isdisjoint(owned.get(topic, ())) for topic, indexes in partitions.items()
    )


def includes(partitions: Partitions, part: Partitions) -> bool:
    """Whether all of `part` is among them."""
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
