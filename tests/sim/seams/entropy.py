"""Randomness that a seed repeats."""

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class SimEntropy:
    """An `Entropy` whose every draw follows from its seed.

    Each subsystem draws from a fork of its own, so that one more draw in one place shifts nothing
    in another.
    """

    __slots__ = ("_random", "seed")

    def __init__(self, seed: int | str = 0) -> None:
        self.seed = seed
        self._random = random.Random(seed)

    def fork(self, name: str) -> "SimEntropy":
        """A stream of its own for `name`: the same however much was drawn here before."""
        return SimEntropy(f"{self.seed}/{name}")

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high], both included."""
        return self._random.randint(low, high)

    def chance(self, rate: float) -> bool:
        """True with probability `rate`. A rate of nothing draws nothing."""
        return rate > 0 and self._random.random() < rate

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self._random.randrange(len(items))]
