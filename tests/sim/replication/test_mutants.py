"""The simulation is worth its time: each planted bug is found by the failure it is meant for."""

import pytest

from tests.sim.planted_bugs import LEFTOVERS_IGNORED, seed_that_finds
from tests.sim.replication.churn_mutants import CHURN_MUTANTS
from tests.sim.replication.groups.mutants import GROUP_MUTANTS
from tests.sim.replication.mutants import MUTANTS, Mutant

ALL = (*MUTANTS, *GROUP_MUTANTS, *CHURN_MUTANTS)


@LEFTOVERS_IGNORED
@pytest.mark.parametrize("mutant", ALL, ids=[mutant.name for mutant in ALL])
def test_a_planted_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seed_that_finds(mutant, mutant.run, monkeypatch) is not None
