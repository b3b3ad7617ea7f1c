"""The rules of a classic group as tables: which state follows which, and how each answers.

Dead is a group that is gone from here: deleted, or its shard is led elsewhere.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from ottla.errors import ErrorCode


class State(StrEnum):
    """Where a group stands, by the names that DescribeGroups shows."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Transition(NamedTuple):
    """One arrow of the machine."""

    before: State
    event: str
    after: State


TRANSITIONS = (
    Transition(State.EMPTY, "a first member joins", State.PREPARING_REBALANCE),
    Transition(State.EMPTY, "a generation with members is loaded", State.STABLE),
    Transition(
        State.EMPTY,
        "a consumer group is downgraded, without a leader",
        State.PREPARING_REBALANCE,
    ),
    Transition(
        State.PREPARING_REBALANCE,
        "all members have joined, or the timeout expires",
        State.COMPLETING_REBALANCE,
    ),
    Transition(State.PREPARING_REBALANCE, "no member is left", State.EMPTY),
    Transition(State.PREPARING_REBALANCE, "the next generation is loaded", State.STABLE),
    Transition(State.COMPLETING_REBALANCE, "the leader's assignment is saved", State.STABLE),
    Transition(
        State.COMPLETING_REBALANCE, "a member joins, leaves or fails", State.PREPARING_REBALANCE
    ),
    Transition(State.STABLE, "a member joins, leaves or fails", State.PREPARING_REBALANCE),
    Transition(State.STABLE, "a static member rejoins with a new member id", State.STABLE),
    Transition(State.STABLE, "a generation without members is loaded", State.EMPTY),
    Transition(State.EMPTY, "the group is created, or saved again", State.EMPTY),
    *(
        Transition(state, "the group is deleted, or its shard is unloaded", State.DEAD)
        for state in State
        if state is not State.DEAD
    ),
)

_ALLOWED = frozenset((before, after) for before, _, after in TRANSITIONS)

# What a member with the right id and generation is told.
HEARTBEAT_ANSWERS: Mapping[State, ErrorCode] = {
    State.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    State.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    # Members may beat as soon as they have joined, before they have synced.
    State.COMPLETING_REBALANCE: ErrorCode.NONE,
    State.STABLE: ErrorCode.NONE,
    State.DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

# Why a group in this state is not deleted.
DELETE_REFUSALS: Mapping[State, ErrorCode] = {
    State.PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    State.COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    State.STABLE: ErrorCode.NON_EMPTY_GROUP,
    State.DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}


def is_allowed(before: State, after: State) -> bool:
    """Whether an arrow leads from one state to the other."""
    return (before, after) in _ALLOWED
