"""Runs a seed of the cluster's simulation, and tells how to run it again if it fails."""

from tests.sim.broker.runs import Divergence
from tests.sim.broker.witness import Witness
from tests.sim.cluster.losses import Losses, LossScenario
from tests.sim.cluster.scenario import STEPS_PER_SEED, Outcome, Scenario
from tests.sim.cluster.world import Shape

TEST = "test_cluster_under_faults.py"
LOSSES_TEST = "test_losses.py"


class ClusterDivergence(Divergence):
    """The cluster broke its word."""

    replay = "OTTLA_SEED={seed} pytest tests/sim/cluster/{test}"


def run_seed(seed: int, steps: int = STEPS_PER_SEED, shape: Shape | None = None) -> Outcome:
    """ClusterDivergence if something was not as it must be."""
    witness = Witness()
    try:
        return Scenario(seed, witness, shape or Shape()).run(steps)
    except Exception as error:
        raise ClusterDivergence(seed, witness, error, TEST) from error


def run_losses(seed: int) -> Losses:
    """ClusterDivergence if a record was lost that must not be, or without a report."""
    witness = Witness()
    try:
        return LossScenario(seed, witness).run()
    except Exception as error:
        raise ClusterDivergence(seed, witness, error, LOSSES_TEST) from error
