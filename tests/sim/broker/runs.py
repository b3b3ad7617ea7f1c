"""Runs a seed, and tells how to run it again if it fails."""

from collections.abc import Iterator
from unittest.mock import patch

from ottla.broker import node
from tests.sim.broker.scenario import STEPS_PER_SEED, Scenario
from tests.sim.broker.witness import Witness

REPLAY = "OTTLA_SEED={seed} pytest tests/sim/broker/test_broker_under_faults.py"


class Divergence(AssertionError):
    """The broker broke its word to a client, or failed where nothing was wrong with the disk."""

    def __init__(self, seed: int, witness: Witness, cause: Exception) -> None:
        reason = "\n".join(f"{type(each).__name__}: {each}" for each in _leaves(cause))
        replay = REPLAY.format(seed=seed)
        super().__init__("\n".join([f"seed {seed}", *witness.lines, "", reason, "", replay]))
        self.reason = reason


def run_seed(seed: int, steps: int = STEPS_PER_SEED) -> str:
    """The hash of all that happened. Divergence if something was not as it must be."""
    witness = Witness()
    try:
        # Freezing is for a process that has one node, not one after another.
        with patch.object(node, "gc"):
            return Scenario(seed, witness).run(steps)
    except Exception as error:
        raise Divergence(seed, witness, error) from error


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
