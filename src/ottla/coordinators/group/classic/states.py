"""The states of a classic group as tables: their transitions, and the error codes of each state.

A group is Dead if it was deleted or if this broker no longer leads its shard.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from ottla.errors import ErrorCode


class ClassicGroupState(StrEnum):
    """The state of a group, by the names that DescribeGroups shows."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Transition(NamedTuple):
    """One transition of the state machine."""

    before: ClassicGroupState
    event: str
    after: ClassicGroupState


TRANSITIONS = (
    Transition(
        ClassicGroupState.EMPTY, "a first member joins", ClassicGroupState.PREPARING_REBALANCE
    ),
    Transition(
        ClassicGroupState.EMPTY, "a generation with members is loaded", ClassicGroupState.STABLE
    ),
    Transition(
        ClassicGroupState.EMPTY,
        "a consumer group is downgraded, without a leader",
        ClassicGroupState.PREPARING_REBALANCE,
    ),
    Transition(
        ClassicGroupState.PREPARING_REBALANCE,
        "all members have joined, or the timeout expires",
        ClassicGroupState.COMPLETING_REBALANCE,
    ),
    Transition(ClassicGroupState.PREPARING_REBALANCE, "no member is left", ClassicGroupState.EMPTY),
    Transition(
        ClassicGroupState.PREPARING_REBALANCE,
        "the next generation is loaded",
        ClassicGroupState.STABLE,
    ),
    Transition(
        ClassicGroupState.COMPLETING_REBALANCE,
        "the leader's assignment is saved",
        ClassicGroupState.STABLE,
    ),
    Transition(
        ClassicGroupState.COMPLETING_REBALANCE,
        "a member joins, leaves or fails",
        ClassicGroupState.PREPARING_REBALANCE,
    ),
    Transition(
        ClassicGroupState.STABLE,
        "a member joins, leaves or fails",
        ClassicGroupState.PREPARING_REBALANCE,
    ),
    Transition(
        ClassicGroupState.STABLE,
        "a static member rejoins with a new member id",
        ClassicGroupState.STABLE,
    ),
    Transition(
        ClassicGroupState.STABLE, "a generation without members is loaded", ClassicGroupState.EMPTY
    ),
    Transition(
        ClassicGroupState.EMPTY, "the group is created, or saved again", ClassicGroupState.EMPTY
    ),
    *(
        Transition(state, "the group is deleted, or its shard is unloaded", ClassicGroupState.DEAD)
        for state in ClassicGroupState
        if state is not ClassicGroupState.DEAD
    ),
)

_ALLOWED = frozenset((before, after) for before, _, after in TRANSITIONS)

# The answer to a heartbeat with the right member id and generation.
HEARTBEAT_CODES: Mapping[ClassicGroupState, ErrorCode] = {
    ClassicGroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    ClassicGroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    # Members may send heartbeats as soon as they have joined, before they have synced.
    ClassicGroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    ClassicGroupState.STABLE: ErrorCode.NONE,
    ClassicGroupState.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

# The refusal to delete a group in this state.
DELETE_REFUSALS: Mapping[ClassicGroupState, ErrorCode] = {
    ClassicGroupState.PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    ClassicGroupState.COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    ClassicGroupState.STABLE: ErrorCode.NON_EMPTY_GROUP,
    ClassicGroupState.DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}


def is_allowed(before: ClassicGroupState, after: ClassicGroupState) -> bool:
    """Whether there is a transition from one state to the other."""
    return (before, after) in _ALLOWED
