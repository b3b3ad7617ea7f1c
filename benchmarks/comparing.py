"""Comparison and verdict: the figures of two sides, their ratio, a hold. Pure."""

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


class Sense(enum.Enum):
    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The bound that a figure must keep: as a ratio to the base, or absolute.

    With `ties`, overlapping spreads are a tie and not a miss: the client is the limit there. With
    `is_every_run`, the highest figure must keep it, and not the median.
    """

    sense: Sense
    bound: float
    goal: float | None = None
    ties: bool = False
    is_absolute: bool = False
    is_every_run: bool = False

    def met_by(self, value: float) -> bool:
        return self._keeps(value, self.bound)

    def reaches_goal(self, value: float) -> bool:
        return self.goal is not None and self._keeps(value, self.goal)

    def _keeps(self, value: float, bound: float) -> bool:
        return value >= bound if self.sense is Sense.AT_LEAST else value <= bound

    def __str__(self) -> str:
        words = f"{self.sense.value} {short(self.bound)}"
        words += f", goal {short(self.goal)}" if self.goal is not None else ""
        return words + (" or a tie" if self.ties else "")


def at_least(bound: float, goal: float | None = None, *, ties: bool = False) -> Hold:
    return Hold(sense=Sense.AT_LEAST, bound=bound, goal=goal, ties=ties)


def at_most(bound: float, goal: float | None = None, *, ties: bool = False) -> Hold:
    return Hold(sense=Sense.AT_MOST, bound=bound, goal=goal, ties=ties)


def below(bound: float) -> Hold:
    return Hold(sense=Sense.AT_MOST, bound=bound, is_absolute=True)


def never() -> Hold:
    """For a count of what must not happen in any run."""
    return Hold(sense=Sense.AT_MOST, bound=0, is_absolute=True, is_every_run=True)


def above(bound: float) -> Hold:
    return Hold(sense=Sense.AT_LEAST, bound=bound, is_absolute=True)


@dataclass(frozen=True, slots=True)
class Spread:
    """The figures of one side: median, lowest and highest."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> "Spread":
        return cls(statistics.median(figures), min(figures), max(figures))


@dataclass(frozen=True, slots=True)
class Ratio:
    """Ours divided by the base: of the medians, and the range that the spreads allow.

    Two spreads overlap exactly if 1 is between `lowest` and `highest`.
    """

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, ours: Spread, base: Spread) -> "Ratio":
        return cls(
            _divide(ours.median, base.median),
            _divide(ours.lowest, base.highest),
            _divide(ours.highest, base.lowest),
        )

    @property
    def is_overlap(self) -> bool:
        return self.lowest <= 1 <= self.highest

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.median)


class Outcome(enum.Enum):
    HELD = "held"
    TIE = "tie"
    MISSED = "missed"
    UNKNOWN = "too small to tell"


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    words: str


def judge(hold: Hold, ours: Spread, base: Spread | None) -> Verdict:
    """Held, a tie if the hold allows ties, or missed, with the distance from the bound."""
    ratio = Ratio.of(ours, base) if base else None
    if hold.is_absolute:
        value = ours.highest if hold.is_every_run else ours.median
    elif ratio is None or not ratio.is_known:
        return Verdict(Outcome.UNKNOWN, Outcome.UNKNOWN.value)
    else:
        value = ratio.median
    if hold.met_by(value):
        words = "held, and the goal" if hold.reaches_goal(value) else "held"
        return Verdict(Outcome.HELD, words)
    if hold.ties and ratio is not None and ratio.is_overlap:
        return Verdict(Outcome.TIE, "tie")
    if not hold.bound:
        return Verdict(Outcome.MISSED, f"missed: {short(value)}")
    return Verdict(Outcome.MISSED, f"missed by {abs(value / hold.bound - 1):.0%}")


def short(figure: float) -> str:
    """A figure with its significant digits."""
    if not math.isfinite(figure):
        return "?"
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def _divide(above: float, below_: float) -> float:
    # A base of 0 is CPU time below the kernel's tick: the ratio is unknown.
    return above / below_ if below_ else math.nan
