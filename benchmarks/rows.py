"""What a benchmark says: a row with its figure, beside what was expected and why."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    unit: str
    figures: tuple[float, ...]
    estimate: float
    because: str

    @property
    def median(self) -> float:
        return statistics.median(self.figures)

    @property
    def spread(self) -> str:
        return f"{_short(min(self.figures))}-{_short(max(self.figures))}"

    def cells(self) -> list[str]:
        return [
            self.name,
            f"{_short(self.median)} {self.unit}",
            self.spread,
            _short(self.estimate),
            f"{self.median / self.estimate:.2f}",
            self.because,
        ]


HEAD = ["row", "measured (median of 3)", "spread", "estimate", "measured / estimate", "because"]


def rates(work: Callable[[], float], repeats: int = 3) -> tuple[float, ...]:
    """Runs `work`, which says how much it did, and gives the amounts per second."""
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        amount = work()
        found.append(amount / (time.perf_counter() - started))
    return tuple(found)


def markdown(rows: list[Row]) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
