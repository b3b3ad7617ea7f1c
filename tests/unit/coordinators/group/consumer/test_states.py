"""The table of a consumer group's states."""

from itertools import product

from ottla.coordinators.group.consumer.states import STATES, ConsumerGroupState, GroupProgress


def test_every_progress_has_a_state_and_only_an_empty_group_has_none() -> None:
    assert STATES.keys() == {GroupProgress(*each) for each in product((False, True), repeat=2)}
    assert set(ConsumerGroupState) - set(STATES.values()) == {ConsumerGroupState.EMPTY}


def test_a_group_with_a_target_due_is_assigning_whatever_its_members_own() -> None:
    states = {state for progress, state in STATES.items() if progress.is_target_due}
    assert states == {ConsumerGroupState.ASSIGNING}
