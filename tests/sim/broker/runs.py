"""Runs a seed, and tells how to run it again if it fails."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar
from unittest.mock import patch

from ottla.broker.node import node
from tests.sim.broker.scenario import STEPS_PER_SEED, Scenario
from tests.sim.broker.witness import Witness

TEST = "test_broker_under_faults.py"


class Runnable(Protocol):
    def run(self, steps: int = ...) -> str:
        """The hash of all that happened."""
        ...


Told = TypeVar("Told", bound=Runnable)


class Divergence(AssertionError):
    """The broker broke its word to a client, or failed where nothing was wrong with the disk."""

    replay = "OTTLA_SEED={seed} pytest tests/sim/broker/{test}"

    def __init__(self, seed: int, witness: Witness, cause: Exception, test: str) -> None:
        reason = "\n".join(f"{type(each).__name__}: {each}" for each in _leaves(cause))
        replay = self.replay.format(seed=seed, test=test)
        super().__init__("\n".join([f"seed {seed}", *witness.lines, "", reason, "", replay]))
        self.reason = reason


def run_seed(seed: int, steps: int = STEPS_PER_SEED) -> str:
    """The hash of all that happened. Divergence if something was not as it must be."""
    return run_scenario(Scenario, seed, Witness(), TEST, steps)[1]


def run_scenario(
    scenario_of: Callable[[int, Witness], Told],
    seed: int,
    witness: Witness,
    test: str,
    steps: int = STEPS_PER_SEED,
) -> tuple[Told, str]:
    """The scenario in its end, too. `test` is where it is run from."""
    try:
        scenario = scenario_of(seed, witness)
        # Freezing is for a process that has one node, not one after another.
        with patch.object(node, "gc"):
            return scenario, scenario.run(steps)
    except Exception as error:
        raise Divergence(seed, witness, error, test) from error


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
