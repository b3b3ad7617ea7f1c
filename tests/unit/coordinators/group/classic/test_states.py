"""The tables of a classic group's states."""

from ottla.coordinators.group.classic.states import (
    DELETE_REFUSALS,
    HEARTBEAT_CODES,
    TRANSITIONS,
    ClassicGroupState,
    is_allowed,
)


def test_every_state_can_be_reached_and_dead_is_final() -> None:
    reached = {ClassicGroupState.EMPTY}
    for _ in TRANSITIONS:
        reached |= {after for before, _, after in TRANSITIONS if before in reached}
    assert reached == set(ClassicGroupState)
    assert not any(is_allowed(ClassicGroupState.DEAD, after) for after in ClassicGroupState)


def test_every_state_answers_heartbeats_and_only_an_empty_group_may_be_deleted() -> None:
    assert HEARTBEAT_CODES.keys() == set(ClassicGroupState)
    assert set(ClassicGroupState) - DELETE_REFUSALS.keys() == {ClassicGroupState.EMPTY}
