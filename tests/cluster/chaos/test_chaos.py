"""Every fault on a cluster of real processes, under load: no acknowledged record is lost."""

from pathlib import Path

import pytest

from tests.cluster.chaos.plan import plan
from tests.cluster.chaos.run import run_rounds

# Two seeds have every fault twice.
SEEDS = (1, 2)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_anomaly_under_every_fault(seed: int, tmp_path: Path) -> None:
    outcome = run_rounds(seed, plan(seed), tmp_path / "run", print)
    assert not outcome.verdict.anomalies, f"seed {seed}: {outcome.verdict}, kept in {tmp_path}"
    assert outcome.verdict.acknowledged > 0
    assert outcome.verdict.transactions > 0
