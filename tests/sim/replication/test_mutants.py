"""The simulation is worth its time: each planted bug is found by the failure it is meant for."""

import pytest

from tests.sim.replication.mutants import MUTANTS, Mutant
from tests.sim.replication.runs import ReplicationDivergence


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_planted_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    others: list[str] = []
    for seed in mutant.seeds:
        reason = _why_it_fails(mutant, seed)
        if reason is not None and mutant.is_found_by(reason):
            print(f"{mutant.name}: found by seed {seed} of {mutant.seeds}: {reason}")
            return
        if reason is not None:
            others.append(f"seed {seed}: {reason}")
    pytest.fail(f"none of the seeds {mutant.seeds} has found it; other failures: {others}")


def _why_it_fails(mutant: Mutant, seed: int) -> str | None:
    try:
        mutant.run(seed)
    except ReplicationDivergence as divergence:
        return divergence.reason
    return None
