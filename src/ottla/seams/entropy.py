"""Randomness: unguessable tokens, and numbers for jitter and choices."""

import os
import random
from typing import Protocol


class Entropy(Protocol):
    def token(self, size: int) -> bytes:
        """`size` unguessable bytes, for ids and secrets."""
        ...

    def below(self, bound: int) -> int:
        """An integer in [0, bound), for jitter and choices, not for secrets."""
        ...


class RealEntropy:
    """The kernel's randomness for tokens, a generator seeded from it for choices."""

    __slots__ = ("_random",)

    def __init__(self) -> None:
        self._random = random.Random(os.urandom(16))  # noqa: S311 - `below` promises no secrecy

    def token(self, size: int) -> bytes:
        return os.urandom(size)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)
