"""A broker keeps its word to its clients, whatever becomes of its process, its disk and its power.

Under an even seed every message is flushed (`flush.messages=1`) and the power may be lost; under an
odd one nothing is, and the process may be killed at any moment.
"""

import pytest

from tests.sim.broker.runs import run_seed


@pytest.mark.seeds(50)
def test_what_was_acknowledged_is_there_once_and_in_order_whatever_happens(seeds: range) -> None:
    assert all(run_seed(seed) for seed in seeds)


@pytest.mark.parametrize("seed", range(4))
def test_a_seed_does_the_same_again(seed: int) -> None:
    assert run_seed(seed) == run_seed(seed)


def test_seeds_differ_from_one_another() -> None:
    assert len({run_seed(seed, steps=1) for seed in range(6)}) == 6
