"""Runs a seed, and tells how to run it again if it fails."""

from tests.sim.broker.runs import Divergence
from tests.sim.broker.witness import Witness
from tests.sim.replication.scenario import STEPS_PER_SEED, Outcome, Scenario

TEST = "test_replication_under_faults.py"


class ReplicationDivergence(Divergence):
    """The cluster broke its word."""

    replay = "OTTLA_SEED={seed} pytest tests/sim/replication/{test}"


def run_seed(seed: int, steps: int = STEPS_PER_SEED) -> Outcome:
    """ReplicationDivergence if something was not as it must be."""
    witness = Witness()
    try:
        return Scenario(seed, witness).run(steps)
    except Exception as error:
        raise ReplicationDivergence(seed, witness, error, TEST) from error
