"""The simulation is worth its time: each planted bug is found, by one of the stated seeds."""

import pytest

from tests.sim.storage.mutants import MUTANTS, Mutant
from tests.sim.storage.runs import Divergence, run_seed


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_planted_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    reasons = ((seed, _why_it_fails(seed)) for seed in mutant.seeds)
    found = next(((seed, reason) for seed, reason in reasons if reason), None)
    assert found is not None, f"none of the seeds {mutant.seeds} has found it"
    print(f"{mutant.name}: found by seed {found[0]} of {mutant.seeds}: {found[1]}")


def _why_it_fails(seed: int) -> str | None:
    try:
        run_seed(seed)
    except Divergence as divergence:
        return divergence.reason
    return None
