"""Bugs to plant, each of which a simulation must find by the failure that it is meant to cause.

A bug has a table of few seeds, which begins with one that has found it before. With
OTTLA_MUTANT_SEEDS=200 the seeds 0 to 199 are tried instead, until one finds it.
"""

import gc
import os
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

import pytest

from ottla.broker import handlers
from tests.sim.broker.runs import Divergence

# A run that fails leaves tasks behind, whose loop is closed when they are finalized.
LEFTOVERS_IGNORED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

Plant = Callable[[pytest.MonkeyPatch], None]

# Brokers import handlers on first use. One that is imported while a bug is planted would keep what
# it takes from patched modules, for all later tests of the process.
for _module in pkgutil.iter_modules(handlers.__path__, f"{handlers.__name__}."):
    import_module(_module.name)


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """A bug, the seeds one of which must meet it, and a pattern of the failure that counts."""

    plant: Plant
    seeds: Sequence[int]
    failure: str

    @property
    def name(self) -> str:
        return self.plant.__name__

    def is_found_by(self, reason: str) -> bool:
        return re.search(self.failure, reason) is not None


def seeds_to_try(table: Sequence[int]) -> Sequence[int]:
    """The seeds of a bug's table, or as many as the environment asks for."""
    count = os.environ.get("OTTLA_MUTANT_SEEDS")
    return table if count is None else range(int(count))


def seed_that_finds(
    bug: PlantedBug, run: Callable[[int], object], patch: pytest.MonkeyPatch
) -> int | None:
    """The first seed that fails as it is meant to. Prints the other failures if there is none."""
    bug.plant(patch)
    others: list[str] = []
    seeds = seeds_to_try(bug.seeds)
    for seed in seeds:
        reason = _why_it_fails(run, seed)
        if reason is not None and bug.is_found_by(reason):
            print(f"{bug.name}: found by seed {seed} of {seeds}: {reason}")
            return seed
        if reason is not None:
            others.append(f"seed {seed}: {reason}")
    print(f"none of the seeds {seeds} has found {bug.name}; other failures: {others}")
    return None


def _why_it_fails(run: Callable[[int], object], seed: int) -> str | None:
    try:
        run(seed)
    except Divergence as divergence:
        return divergence.reason
    finally:
        # What a failed run leaves half done is finalized here, and not in another test.
        gc.collect()
    return None
