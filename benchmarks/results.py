"""The measurements of a row, and its lines in the table, the page and the plots. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.comparing import Outcome, Ratio, Spread, Verdict, judge
from benchmarks.row import Figure, Ran, Row

# The runs of a row on each side, unless its name says otherwise.
RUNS_DEFAULT = 3


@dataclass(slots=True)
class Side:
    """All runs of one side."""

    runs: list[Ran] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def spread(self, name: str) -> Spread:
        return Spread.of([ran.figures[name] for ran in self.runs])

    def cpu(self, row: Row) -> Spread | None:
        found = [
            row.cpu_per.of(cpu_s, ran) for cpu_s, ran in zip(self.cpu_s, self.runs, strict=True)
        ]
        known = [figure for figure in found if figure is not None]
        return Spread.of(known) if known else None


@dataclass(slots=True)
class Result:
    """A row's runs on both sides; `trouble` is the reason if there are none.

    `share` is the part of its load that was run.
    """

    row: Row
    base: Side = field(default_factory=Side)
    ours: Side = field(default_factory=Side)
    trouble: str = ""
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Cpu:
    """The brokers' CPU for the same work, compared and judged."""

    base: Spread
    ours: Spread
    ratio: Ratio
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure, compared and judged; only the first line of a row has the CPU."""

    row: Row
    share: float
    runs: int
    figure: Figure
    base: Spread
    ours: Spread
    ratio: Ratio
    verdict: Verdict | None
    cpu: Cpu | None

    @property
    def name(self) -> str:
        """The row's name, with the part of its load and the number of runs if they are unusual."""
        notes = [f"{self.share:.0%}"] if self.share < 1 else []
        if self.runs != RUNS_DEFAULT:
            notes.append("1 run" if self.runs == 1 else f"{self.runs} runs")
        return f"{self.row.name} [{', '.join(notes)}]" if notes else self.row.name

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on the figure and on the CPU, if they have holds."""
        found = (self.verdict, self.cpu.verdict if self.cpu else None)
        return [verdict for verdict in found if verdict]

    @property
    def verdict_words(self) -> str:
        words = [self.verdict.words if self.verdict else "reported"]
        if self.cpu and self.cpu.verdict:
            words.append(f"CPU {self.cpu.verdict.words}")
        return "; ".join(words)

    @property
    def is_missed(self) -> bool:
        return any(verdict.outcome is Outcome.MISSED for verdict in self.verdicts)


def lines_of(result: Result) -> Iterator[Line]:
    """The lines of a row; none if it was not measured."""
    row = result.row
    if result.trouble or not result.ours.runs:
        return
    for index, figure in enumerate(row.figures):
        base, ours = result.base.spread(figure.name), result.ours.spread(figure.name)
        yield Line(
            row=row,
            share=result.share,
            runs=len(result.ours.runs),
            figure=figure,
            base=base,
            ours=ours,
            ratio=Ratio.of(ours, base),
            verdict=judge(figure.hold, ours, base) if figure.hold else None,
            cpu=_cpu(result) if index == 0 else None,
        )


def _cpu(result: Result) -> Cpu | None:
    base, ours = result.base.cpu(result.row), result.ours.cpu(result.row)
    if base is None or ours is None:
        return None
    hold = result.row.cpu_hold
    return Cpu(base, ours, Ratio.of(ours, base), judge(hold, ours, base) if hold else None)


def all_lines(results: Sequence[Result]) -> list[Line]:
    return [line for result in results for line in lines_of(result)]
