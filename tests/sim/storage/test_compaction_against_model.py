"""A compacted log is the dictionary of its keys, whatever happens, and at every step of the way."""

import pytest

from tests.sim.storage.compaction_mutants import MUTANTS
from tests.sim.storage.compaction_scenario import CompactionScenario
from tests.sim.storage.mutants import Mutant


@pytest.mark.seeds(150)
def test_compaction_keeps_the_last_record_of_each_key_through_crashes(seeds: range) -> None:
    compactions = swaps = 0
    for seed in seeds:
        scenario = CompactionScenario(seed)
        try:
            scenario.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        compactions += scenario.compactions
        swaps += scenario.swaps
    assert compactions > 3 * len(seeds)
    assert swaps > 10 * len(seeds)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_bug_in_compaction_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    assert any(_fails(seed) for seed in mutant.seeds)


def _fails(seed: int) -> bool:
    try:
        CompactionScenario(seed).run()
    except AssertionError:
        return True
    return False
