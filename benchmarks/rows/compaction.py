"""Compaction: how fast, and what small requests feel of it."""

from benchmarks.comparing import at_least, at_most
from benchmarks.loads.compaction import Compaction
from benchmarks.row import Figure, Row

COMPACTION = Row(
    group="compaction",
    name="10 million records of 100 B, 1 million keys",
    load=Compaction(records=10_000_000, keys=1_000_000, seconds=5),
    figures=(
        Figure(
            name="mb_s",
            unit="MB/s",
            hold=at_least(1.0),
            estimate=1.0,
            because="the log is read twice and its keys go through a table on both: compiled here, "
            "hashed by MD5 there",
        ),
        Figure(
            name="p99_us",
            unit="us, p99 of small produces meanwhile",
            hold=at_most(1.0),
            estimate=0.8,
            because="a process of its own here, a thread of the broker there; both fill a core",
        ),
    ),
    short_share=0.2,
)

ROWS = (COMPACTION,)
