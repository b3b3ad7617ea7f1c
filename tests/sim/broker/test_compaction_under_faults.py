"""A compacted topic is the dictionary of its keys, whatever befalls the broker and its worker."""

import pytest

from tests.sim.broker.compacted_mutants import MUTANTS
from tests.sim.broker.compacted_scenario import CompactedScenario, CompactionWitness
from tests.sim.broker.runs import Divergence, run_scenario
from tests.sim.storage.mutants import Mutant

TEST = "test_compaction_under_faults.py"


def run_seed(seed: int) -> tuple[CompactedScenario, CompactionWitness, str]:
    witness = CompactionWitness()
    scenario, trace = run_scenario(CompactedScenario, seed, witness, TEST)
    return scenario, witness, trace


@pytest.mark.seeds(30)
def test_the_last_acknowledged_record_of_each_key_is_there_whatever_happens(seeds: range) -> None:
    compactions = reads = served = sent = 0
    for seed in seeds:
        scenario, witness, _ = run_seed(seed)
        compactions += witness.compactions
        reads += scenario.reads
        served += scenario.served
        sent += len(scenario.history.sent)
    assert compactions > 2 * len(seeds)
    assert reads > 5 * len(seeds)
    assert served < sent / 2


@pytest.mark.parametrize("seed", range(2))
def test_a_seed_of_compaction_does_the_same_again(seed: int) -> None:
    assert run_seed(seed)[2] == run_seed(seed)[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_bug_planted_in_compaction_is_found(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.plant(monkeypatch)
    assert any(_fails(seed) for seed in mutant.seeds)


def _fails(seed: int) -> bool:
    try:
        run_seed(seed)
    except Divergence:
        return True
    return False
