"""Transactions are all or nothing, whatever befalls the broker, its clients and its disk.

Under an even seed every message is flushed (`flush.messages=1`) and the power may be lost; under an
odd one nothing is, and the process may be killed at any moment.
"""

from collections import Counter

import pytest

from tests.sim.broker.runs import run_scenario
from tests.sim.broker.transactional_scenario import TransactionalScenario, share_of_unknown
from tests.sim.broker.witness import Witness

TEST = "test_transactions_under_faults.py"


def run_seed(seed: int) -> tuple[TransactionalScenario, str]:
    return run_scenario(TransactionalScenario, seed, Witness(), TEST)


@pytest.mark.seeds(30)
def test_transactions_are_whole_or_absent_whatever_happens(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += run_seed(seed)[0].counts
    print(counts)
    assert counts["committed"] > 2 * len(seeds)
    assert share_of_unknown(counts) < 0.1
