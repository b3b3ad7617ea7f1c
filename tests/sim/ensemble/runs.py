"""Runs a seed, and tells how to run it again if it fails."""

from tests.sim.ensemble.scenario import Scenario

REPLAY = "OTTLA_SEED={seed} pytest tests/sim/ensemble/test_store_under_faults.py"


class Divergence(AssertionError):
    """The store broke its word to a broker, or failed where nothing was wrong for good."""

    def __init__(self, seed: int, cause: BaseException) -> None:
        self.reason = f"{type(cause).__name__}: {cause}"
        super().__init__(f"seed {seed}\n\n{self.reason}\n\nreplay: {REPLAY.format(seed=seed)}")


def run_seed(seed: int) -> str:
    """The hash of all that happened. Divergence if something was not as it must be."""
    try:
        return Scenario(seed).run()
    except Exception as error:
        raise Divergence(seed, error) from error
