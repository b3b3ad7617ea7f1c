"""Compaction: its rate, and its effect on small requests."""

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
            because="both read the log twice and put its keys into a table: compiled code here, "
            "MD5 hashes there",
        ),
        Figure(
            name="p99_us",
            unit="us, p99 of small produces during it",
            hold=at_most(1.0),
            estimate=0.8,
            because="a separate process here, a thread of the broker there; both fill a core",
        ),
    ),
    short_share=0.2,
)

ROWS = (COMPACTION,)
