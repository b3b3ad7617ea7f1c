"""Bulk fetch by librdkafka and raw, and the effect of a log's length."""

from benchmarks.comparing import at_least, at_most
from benchmarks.loads import rdkafka
from benchmarks.loads.generators import RawFetch
from benchmarks.loads.log_length import WHERE, FetchesAt
from benchmarks.row import CpuPer, Figure, Load, Row

FETCHES = 3_000
SMALL_LOG_MB = 100
PLACES = {"start": "at the start", "end": "at the end", "random": "at random offsets"}


def _bulk(
    name: str, load: Load, figure: tuple[str, str], cpu_bound: float, short_share: float = 0.5
) -> Row:
    return Row(
        group="bulk fetch",
        name=name,
        load=load,
        figures=(
            Figure(
                name=figure[0],
                unit=figure[1],
                hold=at_least(1.0, ties=True),
                estimate=1.0,
                because="page cache to socket by sendfile on both: the client is the limit",
            ),
        ),
        cpu_per=CpuPer.GB,
        cpu_hold=at_most(cpu_bound),
        short_share=short_share,
    )


def _log_figures() -> tuple[Figure, ...]:
    figures = []
    for where in WHERE:
        figures += [
            Figure(
                name=f"bytes_{where}",
                unit=f"B read per fetch {PLACES[where]}",
                hold=at_most(1.1),
                estimate=1.0,
                because="a binary search in one index, one window, one slice, for every length",
            ),
            Figure(
                name=f"cpu_us_{where}",
                unit=f"us CPU per fetch {PLACES[where]}",
                hold=at_most(1.1),
                estimate=1.02,
                because="a few more steps of the binary search; the segment is found by bisection",
            ),
        ]
    return tuple(figures)


def _log_row(megabytes: int, name: str, short_share: float) -> Row:
    return Row(
        group="length of the log",
        name=f"fetch from {name}, compared with 100 MB (ours only)",
        load=FetchesAt(megabytes=megabytes, fetches=FETCHES),
        base=FetchesAt(megabytes=SMALL_LOG_MB, fetches=FETCHES),
        base_name="100 MB",
        figures=_log_figures(),
        short_share=short_share,
    )


ROWS = (
    _bulk(
        "librdkafka, 100 B, 1 partition",
        rdkafka.Fetch(count=4_000_000, size=100),
        ("rate", "messages/s"),
        1.0,
    ),
    _bulk(
        "librdkafka, 1 KiB, 1 partition",
        rdkafka.Fetch(count=800_000, size=1024),
        ("rate", "messages/s"),
        1.0,
        short_share=0,
    ),
    _bulk("raw, 1 MiB per request, 1 partition", RawFetch(megabytes=1000), ("mb_s", "MB/s"), 1.1),
    _log_row(1_000, "1 GB", 1.0),
    _log_row(10_000, "10 GB", 0),
)
