"""Every state of a partition on three brokers, within a number of events, keeps its promises.

`MODEL_DEPTH` is the number of events.
"""

import os

import pytest

from ottla.metadata.controller import isr_changes, reassignment
from ottla.metadata.controller.partition_update import updated
from tests.model import mutants
from tests.model.events import Rules, steps
from tests.model.exploration import Exploration
from tests.model.state import (
    State,
    key_of,
    start,
    start_below_min_isr,
    start_on_two,
    state_of,
)

DEPTH = int(os.environ.get("MODEL_DEPTH", "6"))
ENOUGH_ALONE, WHOLE, BELOW_MIN_ISR = start(min_isr=1), start(min_isr=2), start_below_min_isr()
STARTS = (ENOUGH_ALONE, WHOLE, BELOW_MIN_ISR)
# Moves make more states: one event less.
MOVING_DEPTH = DEPTH - 1
MOVING_STARTS = (start_on_two(min_isr=1), start_on_two(min_isr=2))
TARGETS = ((3, 2), (1, 3), (1, 2))


def test_no_event_breaks_an_invariant() -> None:
    explored = Exploration(Rules()).explore(STARTS, DEPTH)

    print(
        f"depth {DEPTH}: {explored.states:,} states, {explored.steps:,} events,"
        f" {explored.cpu_seconds:.1f} s of CPU"
    )
    assert explored.violation is None, explored.violation
    assert explored.states > 5**DEPTH


def test_no_move_between_brokers_breaks_an_invariant() -> None:
    explored = Exploration(Rules(targets=TARGETS)).explore(MOVING_STARTS, MOVING_DEPTH)

    print(f"{explored.states:,} states, {explored.steps:,} events, {explored.cpu_seconds:.1f} s")
    assert explored.violation is None, explored.violation
    assert explored.states > 5**MOVING_DEPTH


@pytest.mark.parametrize(
    ("rules", "begin", "invariant"),
    [
        (Rules(with_min_isr=mutants.min_isr_change_that_empties_the_elr), WHOLE, "6: nobody"),
        (Rules(updated=mutants.update_with_any_older_epoch_inherited), WHOLE, "3:"),
        (Rules(updated=mutants.update_that_drops_first), WHOLE, "3:"),
        (Rules(updated=mutants.update_without_elr), WHOLE, "3:"),
        (Rules(updated=mutants.update_that_ignores_damage), WHOLE, "3:"),
        (Rules(updated=mutants.update_that_elects_unclean_before_eligible), WHOLE, "3:"),
        (Rules(altered=mutants.expansion_that_keeps_the_elr), BELOW_MIN_ISR, "3:"),
        (Rules(elected=mutants.election_that_forgets_the_unclean), BELOW_MIN_ISR, "3:"),
        (Rules(updated=mutants.update_that_records_no_loss), ENOUGH_ALONE, "4:"),
    ],
    ids=[
        "elr emptied while nobody leads",
        "any older epoch is inherited",
        "dropped instead of rewritten",
        "no elr",
        "damage ignored",
        "unclean before eligible",
        "elr kept beyond min_isr",
        "unclean forgotten",
        "loss not recorded",
    ],
)
def test_a_wrong_rule_is_found(rules: Rules, begin: State, invariant: str) -> None:
    explored = Exploration(rules).explore([begin], 6)

    print(explored)
    assert explored.violation is not None
    assert explored.violation.invariant.startswith(invariant), explored.violation


def test_a_move_that_ends_before_the_new_replicas_are_in_sync_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (reassignment, isr_changes):
        monkeypatch.setattr(module, "completed", mutants.completed_too_early)
    explored = Exploration(Rules(targets=TARGETS)).explore(MOVING_STARTS, 4)

    assert explored.violation is not None
    assert explored.violation.invariant.startswith("6: "), explored.violation


def test_a_key_is_a_whole_state() -> None:
    """Else the exploration would go on from another state than the one it has reached."""
    for begin in STARTS:
        for first in steps(begin, Rules()):
            for second in steps(first.after, Rules()):
                key = key_of(second.after)
                assert key_of(state_of(key)) == key


def test_the_starts_are_settled() -> None:
    for begin in STARTS:
        assert updated(begin.partition, begin.brokers) is begin.partition
