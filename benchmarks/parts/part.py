"""The result of a micro-benchmark: its figure, its estimate and the reason for it."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.comparing import short


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
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
        return f"{short(min(self.figures))}-{short(max(self.figures))}"

    def cells(self) -> list[str]:
        return [
            self.name,
            f"{short(self.median)} {self.unit}",
            self.spread,
            short(self.estimate),
            f"{self.median / self.estimate:.2f}",
            self.because,
        ]


HEAD = ["row", "measured (median of 3)", "spread", "estimate", "measured / estimate", "because"]


def rates(work: Callable[[], float], repeats: int = 3) -> tuple[float, ...]:
    """Runs `work`, which returns its amount, and returns the amounts per second."""
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        amount = work()
        found.append(amount / (time.perf_counter() - started))
    return tuple(found)


def markdown(parts: Sequence[Part]) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(part.cells()) + " |" for part in parts]
    return "\n".join(lines) + "\n"
