"""Bugs planted in transactions are found by the failures that they are meant for."""

import pytest

from tests.sim.planted_bugs import LEFTOVERS_IGNORED, seed_that_finds
from tests.sim.replication.mutants import Mutant
from tests.sim.replication.transactions.mutants import MUTANTS


@LEFTOVERS_IGNORED
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_bug_planted_in_transactions_is_found(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seed_that_finds(mutant, mutant.run, monkeypatch) is not None
