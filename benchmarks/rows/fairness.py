"""Fairness: the p99 of small requests at 1,000 per second beside load that might delay them."""

from benchmarks.comparing import at_most
from benchmarks.loads.fairness import (
    Beside,
    Disturbance,
    bulk_producers,
    cold_reader,
    many_idle,
    nothing,
)
from benchmarks.row import CpuPer, Figure, Row


def _row(
    name: str, disturbance: Disturbance, estimate: float, because: str, *, is_filled: bool = False
) -> Row:
    figures = tuple(
        Figure(name=figure, unit=unit, hold=hold, estimate=estimate, because=because)
        for figure, unit, hold in (("p99_us", "us, p99", at_most(1.0)), ("p50_us", "us, p50", None))
    )
    return Row(
        group="fairness",
        name=f"small produces {name}",
        load=Beside(disturbance, is_filled=is_filled),
        figures=figures,
        cpu_per=CpuPer.REQUESTS,
        short_share=0.3,
    )


ROWS = (
    _row("alone, 1,000/s", nothing, 0.7, "no garbage collector, no hand-offs between threads"),
    _row(
        "beside four bulk producers",
        bulk_producers,
        1.0,
        "one loop reads 256 KiB per connection and turn, but an append of 1 MB delays it; Kafka "
        "has threads for both and too few cores",
    ),
    _row(
        "beside 2,000 idle connections", many_idle, 0.7, "as alone: idle connections cost nothing"
    ),
    _row(
        "beside a reader of cold data",
        cold_reader,
        1.0,
        "cold reads happen in a thread here, in a request thread there",
        is_filled=True,
    ),
)
