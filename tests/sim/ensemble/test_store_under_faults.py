"""The metadata store in ZooKeeper keeps its word to its brokers, whatever happens.

Brokers campaign, append, save snapshots and follow, while they crash and are cut off, connections
break at writes, and the servers lag and lose their leader.
"""

import pytest

from tests.sim.ensemble.mutants import MUTANTS, Mutant
from tests.sim.ensemble.runs import Divergence, run_seed
from tests.sim.ensemble.scenario import Scenario


@pytest.mark.seeds(40)
def test_the_log_is_one_sequence_with_all_that_was_acknowledged(seeds: range) -> None:
    assert all(run_seed(seed) for seed in seeds)


@pytest.mark.parametrize("seed", range(3))
def test_a_seed_does_the_same_again(seed: int) -> None:
    assert run_seed(seed) == run_seed(seed)


def test_the_faults_have_consequences() -> None:
    """A scenario in which nobody is ever deposed would prove nothing."""
    fenced = elections = saved = 0
    for seed in range(5):
        scenario = Scenario(seed)
        scenario.run()
        fenced += len(scenario.claims.fenced)
        elections += len(scenario.claims.fences)
        saved += len(scenario.claims.saved)
    assert fenced > 5
    assert elections > 15
    assert saved > 50


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_planted_bug_is_found_by_the_failure_that_it_is_meant_to_cause(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.plant(monkeypatch)
    for seed in mutant.seeds:
        try:
            run_seed(seed)
        except Divergence as divergence:
            if mutant.failure in divergence.reason:
                print(f"{mutant.name}: found by seed {seed}: {divergence.reason}")
                return
    pytest.fail(f"none of the seeds {mutant.seeds} has found it")
