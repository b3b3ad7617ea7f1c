"""A log does what a list of batches would do, whatever the disk and the power do to it."""

import pytest

from tests.sim.storage.runs import run_seed


@pytest.mark.seeds(1000)
def test_a_log_is_its_model_through_crashes_power_losses_and_faults(seeds: range) -> None:
    assert all(run_seed(seed) for seed in seeds)


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_does_the_same_again(seed: int) -> None:
    assert run_seed(seed) == run_seed(seed)


def test_seeds_differ_from_one_another() -> None:
    assert len({run_seed(seed, operations=10) for seed in range(10)}) == 10
