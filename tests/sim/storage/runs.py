"""Runs a seed, and tells how to run it again if it fails."""

from tests.sim.storage.scenario import OPERATIONS_PER_SEED, Scenario

REPLAY = "OTTLA_SEED={seed} pytest tests/sim/storage/test_log_against_model.py"


class Divergence(AssertionError):
    """The log is not what its model says, or failed where nothing was wrong with the disk."""

    def __init__(self, seed: int, history: list[str], cause: Exception) -> None:
        steps = "\n".join(history)
        replay = REPLAY.format(seed=seed)
        reason = f"{type(cause).__name__}: {cause}"
        super().__init__(f"seed {seed}\n{steps}\n\n{reason}\n\nreplay: {replay}")
        self.reason = reason


def run_seed(seed: int, operations: int = OPERATIONS_PER_SEED) -> str:
    """The hash of all that reached the disk. Divergence if something was not as it must be."""
    history: list[str] = []
    try:
        return Scenario(seed, history).run(operations)
    except Exception as error:
        raise Divergence(seed, history, error) from error
