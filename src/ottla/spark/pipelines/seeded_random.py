"""Chance that repeats: the same seed throws the same, on every machine and with every Python."""

import math

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_STEP = 0x9E37_79B9_7F4A_7C15
_FACTORS = (0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB)


class Dice:
    """The generator SplitMix64. Not for secrets."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def below(self, bound: int) -> int:
        """One of 0, 1, … bound - 1, all alike as long as there are few of them beside 2**64."""
        return self._next() % bound

    def chance(self, share: float) -> bool:
        """True in this share of all throws."""
        return self._unit() < share

    def pause(self, mean: float) -> float:
        """How long until something that happens once in `mean`: exponential."""
        return -mean * math.log(1.0 - self._unit())

    def _unit(self) -> float:
        """At least 0, less than 1."""
        return (self._next() >> 11) / (1 << 53)

    def _next(self) -> int:
        self._state = (self._state + _STEP) & _MASK
        mixed = self._state
        mixed = (mixed ^ mixed >> 30) * _FACTORS[0] & _MASK
        mixed = (mixed ^ mixed >> 27) * _FACTORS[1] & _MASK
        return mixed ^ mixed >> 31
