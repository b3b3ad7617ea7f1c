"""The simulation is worth its time: each planted bug is found, within a stated number of seeds."""

import pytest

from tests.sim.broker.mutants import MUTANTS
from tests.sim.broker.runs import Divergence, run_seed
from tests.sim.storage.mutants import Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_planted_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    reasons = (_why_it_fails(seed) for seed in range(mutant.seeds_max))
    found = next(((seed, reason) for seed, reason in enumerate(reasons) if reason), None)
    assert found is not None, f"{mutant.seeds_max} seeds have not found it"
    print(f"{mutant.name}: found by seed {found[0]} of {mutant.seeds_max}: {found[1]}")


def _why_it_fails(seed: int) -> str | None:
    try:
        run_seed(seed)
    except Divergence as divergence:
        return divergence.reason
    return None
