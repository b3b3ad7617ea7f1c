"""Repeatable randomness: equal seeds give equal numbers on every machine and Python version."""

import math

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_STEP = 0x9E37_79B9_7F4A_7C15
_FACTORS = (0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB)


class SeededRandom:
    """The SplitMix64 generator. Not for secrets."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, bound: int) -> int:
        """An integer in [0, bound), uniform for bounds far below 2**64."""
        return self._next() % bound

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self._unit() < share

    def exponential(self, mean: float) -> float:
        """An exponentially distributed number with this mean."""
        return -mean * math.log(1.0 - self._unit())

    def _unit(self) -> float:
        """A number in [0, 1)."""
        return (self._next() >> 11) / (1 << 53)

    def _next(self) -> int:
        self._state = (self._state + _STEP) & _MASK
        mixed = self._state
        mixed = (mixed ^ mixed >> 30) * _FACTORS[0] & _MASK
        mixed = (mixed ^ mixed >> 27) * _FACTORS[1] & _MASK
        return mixed ^ mixed >> 31
