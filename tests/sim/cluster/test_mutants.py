"""The simulation is worth its time: each planted bug is found by the failure it is meant for."""

import pytest

from tests.sim.cluster.mutants import MUTANTS, Mutant
from tests.sim.planted_bugs import LEFTOVERS_IGNORED, seed_that_finds


@LEFTOVERS_IGNORED
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_planted_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seed_that_finds(mutant, mutant.run, monkeypatch) is not None
