"""Transactions are all or nothing, whatever befalls the broker, its clients and its disk.

Under an even seed every message is flushed (`flush.messages=1`) and the power may be lost; under an
odd one nothing is, and the process may be killed at any moment.

The oracle forgives in four places, and each is bounded here. A transaction whose commit was asked
for and never answered may be committed or not, but whole. An offset whose commit was not answered
may take effect until the broker dies. In seeds in which transactional ids expire, a producer may be
told that its id is unknown. A producer that has repeated InitProducerId may be fenced by the first
request, if that arrives in the same life of the broker.
"""

import re
from collections import Counter

import pytest

from tests.sim.broker.compacted_scenario import CompactionWitness
from tests.sim.broker.runs import Divergence, run_scenario
from tests.sim.broker.transactional_mutants import MUTANTS, SEEDS, TransactionalMutant
from tests.sim.broker.transactional_scenario import TransactionalScenario
from tests.sim.planted_bugs import seeds_to_try

TEST = "test_transactions_under_faults.py"


def run_seed(seed: int) -> tuple[Counter[str], str]:
    witness = CompactionWitness()
    scenario, trace = run_scenario(TransactionalScenario, seed, witness, TEST)
    return scenario.counts + Counter(compactions=witness.compactions), trace


@pytest.mark.seeds(SEEDS)
def test_transactions_are_whole_or_absent_whatever_happens(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += run_seed(seed)[0]
    if len(seeds) < SEEDS:
        return  # a seed that is run again, which may have met little
    assert counts["committed"] > 5 * len(seeds)
    assert counts["aborted"] > 5 * len(seeds)
    assert counts["fenced"] > 2 * len(seeds)
    assert counts["abandoned"] > 0.5 * len(seeds)
    assert counts["compactions"] > 2 * len(seeds)
    assert counts["asleep until the timeout"] > 0.5 * len(seeds)
    assert counts["ends that arrive after the next begin"] > 0.1 * len(seeds)
    assert counts["deletions in a transaction"] > 0.02 * len(seeds)
    assert counts["clock set back"] > 0.2 * len(seeds)
    # What is given up.
    assert counts["unknown"] < 0.1 * counts["transactions"]
    assert counts["unsettled offsets"] < 0.3 * counts["offsets"]
    assert counts["seeds in which ids expire"] < 0.5 * len(seeds)
    assert counts["expired ids"] < 0.1 * counts["transactions"]
    assert counts["fenced by nobody else"] < 0.05 * counts["fenced"]


@pytest.mark.parametrize("seed", range(2))
def test_a_seed_of_transactions_does_the_same_again(seed: int) -> None:
    assert run_seed(seed) == run_seed(seed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_bug_planted_in_transactions_is_found(
    mutant: TransactionalMutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.plant(monkeypatch)
    seeds = seeds_to_try(mutant.seeds)
    found = next((seed for seed in seeds if _fails(seed, mutant.reason)), None)
    assert found is not None, f"none of the seeds {seeds} has found it"


def _fails(seed: int, reason: str) -> bool:
    try:
        run_seed(seed)
    except Divergence as divergence:
        return re.search(reason, divergence.reason, re.DOTALL) is not None
    return False
