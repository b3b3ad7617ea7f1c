"""The table that a run prints."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from benchmarks.comparing import Outcome, Ratio, Spread, short
from benchmarks.results import Cpu, Line, Result, all_lines
from benchmarks.row import Row

COLUMNS = (
    "row",
    "unit",
    "base",
    "ours",
    "ratio",
    "CPU base",
    "CPU ours",
    "CPU ratio",
    "hold",
    "verdict",
)
STYLES = {
    Outcome.HELD: "green",
    Outcome.TIE: "yellow",
    Outcome.MISSED: "bold red",
    Outcome.UNKNOWN: "dim",
}
WORST_FIRST = (Outcome.MISSED, Outcome.UNKNOWN, Outcome.TIE, Outcome.HELD)


def base_names(rows: Iterable[Row]) -> str:
    """The base of the comparison, for the head of a table: `Kafka`."""
    return " or ".join(dict.fromkeys(row.base_name for row in rows))


def ratio_words(ratio: Ratio) -> str:
    if not ratio.is_known:
        return "?"
    return f"{ratio.median:.2f} ({short(ratio.lowest)}-{short(ratio.highest)})"


def spread_words(spread: Spread) -> str:
    if spread.lowest == spread.highest:
        return short(spread.median)
    return f"{short(spread.median)} ({short(spread.lowest)}-{short(spread.highest)})"


def cpu_cells(cpu: Cpu | None) -> list[str]:
    if cpu is None:
        return ["", "", ""]
    return [spread_words(cpu.base), spread_words(cpu.ours), ratio_words(cpu.ratio)]


def hold_words(line: Line) -> str:
    """`at least 1; CPU at most 0.5`"""
    words = [str(line.figure.hold)] if line.figure.hold else []
    if line.cpu and line.row.cpu_hold:
        words.append(f"CPU {line.row.cpu_hold}")
    return "; ".join(words)


def cells(line: Line) -> list[str]:
    """A line as text, in the order of COLUMNS."""
    return [
        line.name,
        line.figure.unit,
        spread_words(line.base),
        spread_words(line.ours),
        ratio_words(line.ratio),
        *cpu_cells(line.cpu),
        hold_words(line),
        line.verdict_words,
    ]


def table(results: Sequence[Result], runs: int) -> Table:
    """Rows under the names of their groups; a row without figures has a reason."""
    made = Table(
        title=f"Ours compared with its base: medians of {runs}, ratios with spread, broker CPU "
        "in s/GB (bulk) or s/100,000 requests (small)"
    )
    for column in COLUMNS:
        is_number = column in COLUMNS[2:8]
        made.add_column(column, justify="right" if is_number else "left", overflow="fold")
    head: tuple[str, str] | None = None
    for result in results:
        if head != (result.row.group, result.row.base_name):
            head = (result.row.group, result.row.base_name)
            made.add_section()
            made.add_row(*(Text(words, style="bold") for words in (head[0], "", head[1])))
        if result.trouble:
            made.add_row(result.row.name, Text(f"no figure: {result.trouble}", style="red"))
        for line in all_lines([result]):
            *plain, _ = cells(line)
            made.add_row(*plain, _verdict_text(line))
    return made


def _verdict_text(line: Line) -> Text:
    found = {verdict.outcome for verdict in line.verdicts}
    worst = next((outcome for outcome in WORST_FIRST if outcome in found), None)
    return Text(line.verdict_words, style=STYLES[worst] if worst else "dim")
