"""`make bench`: compares our broker with Apache Kafka row by row, and writes the page."""

import argparse
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks import machine, page, stored
from benchmarks.cache import CACHE, ROOT, ToolMissing
from benchmarks.loads.spark.process import ended_afterwards
from benchmarks.machine import Machine
from benchmarks.parts import measure_parts, measure_quick_parts
from benchmarks.peers.kafka import VERSION, Kafka, KafkaCluster
from benchmarks.peers.ours import OurCluster, Ours
from benchmarks.peers.peer import BrokerFailed, Peer
from benchmarks.results import RUNS_DEFAULT, Result
from benchmarks.row import Load, LoadFailed, Row
from benchmarks.rows import ROWS
from benchmarks.running import (
    Contest,
    cluster_warming_loads,
    run_rows,
    warm_up,
    warming_loads,
)
from benchmarks.table import table

PAGE = ROOT / "docs" / "benchmarks.md"
CLUSTER_PAGE = ROOT / "docs" / "benchmarks-cluster.md"
TABLE_WIDTH_MIN = 200
notes = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    notes.print(text, markup=False, soft_wrap=True)


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="all rows at full length (make bench-full)"
    )
    parser.add_argument("--rows", metavar="REGEX", help="only rows whose `group: name` matches")
    parser.add_argument("--runs", type=int, default=RUNS_DEFAULT, help="runs per row and broker")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for counts and seconds")
    parser.add_argument("--warm-up", type=float, default=15.0, metavar="SECONDS")
    parser.add_argument(
        "--no-parts", action="store_true", help="with --full: without the codec and the log"
    )
    parser.add_argument("--list", action="store_true", help="list the rows and run none")
    parser.add_argument(
        "--page",
        type=Path,
        help="file to write; by default docs/benchmarks.md, if the run was complete; rows of a "
        "cluster are always written to docs/benchmarks-cluster.md, unless they were scaled down",
    )
    return parser.parse_args(given)


def chosen(options: argparse.Namespace) -> list[Row]:
    wanted = re.compile(options.rows or "")
    return [
        row
        for row in ROWS
        if (options.full or row.short_share) and wanted.search(f"{row.group}: {row.name}")
    ]


def extent_of(options: argparse.Namespace) -> str:
    """A sentence about the extent of the run, for the page."""
    if options.full:
        return f"All rows were run, at {options.scale:g} of their load."
    return (
        f"This is the short set: some rows, at {options.scale:g} of their short load. A percentage "
        "behind a row's name is the part of that load, in records or in seconds; "
        "`make bench-full` runs all rows at full length."
    )


def page_of(options: argparse.Namespace) -> Path | None:
    """The page to write, or None: a partial or scaled-down run does not replace the page."""
    is_whole = not options.rows and options.scale >= 1 and options.runs >= 3
    is_whole = is_whole and not (options.full and options.no_parts)
    return options.page or (PAGE if is_whole else None)


@contextmanager
def workplace() -> Iterator[Path]:
    """A temporary directory for both brokers, on a filesystem that is on a disk."""
    CACHE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=CACHE))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


Keep = Callable[[Result], None]


def compare(
    rows: Sequence[Row], options: argparse.Namespace, keep_of_cluster: Keep
) -> list[Result]:
    """Runs the rows of one broker, then those of three: idle brokers would disturb others."""
    alone = [row for row in rows if not row.is_cluster]
    cluster = [row for row in rows if row.is_cluster]
    results = []
    if alone:
        with workplace() as directory, ended_afterwards():
            peers = Kafka(directory / "kafka"), Ours(directory / "ours")
            results += _compare(alone, peers, warming_loads(), options, lambda _: None)
    if cluster:
        with workplace() as directory:
            clusters = KafkaCluster(directory / "kafka"), OurCluster(directory / "ours")
            warming = cluster_warming_loads()
            results += _compare(cluster, clusters, warming, options, keep_of_cluster)
    return results


def _compare(
    rows: Sequence[Row],
    peers: tuple[Peer, Peer],
    warming: Sequence[Load],
    options: argparse.Namespace,
    keep: Keep,
) -> list[Result]:
    say("starting Apache Kafka and ours")
    with peers[0] as kafka, peers[1] as ours:
        for peer in peers:
            say(f"warming up {peer.name} for {options.warm_up:.0f} s")
            for wrong in sorted(warm_up(peer, options.warm_up, warming)):
                say(f"  {wrong}")
        contest = Contest(kafka, ours, options.runs, options.scale, not options.full)
        return run_rows(rows, contest, say, keep)


def write_cluster_page(result: Result, before: Machine) -> None:
    """Merges a result with those of earlier runs, and renders all."""
    directory = CLUSTER_PAGE.with_suffix("")
    rows = [row for row in ROWS if row.is_cluster]
    merged = stored.merge(directory / stored.FILE_NAME, [result], rows)
    text = page.render(
        merged,
        (),
        before,
        command="make bench-cluster",
        kafka_version=VERSION,
        runs=RUNS_DEFAULT,
        extent="A percentage behind a row's name is the part of its load.",
        directory=directory.name,
        text=page.CLUSTER_TEXT,
    )
    page.write(CLUSTER_PAGE, text, page.plots(merged))


def main() -> None:
    options = arguments(sys.argv[1:])
    rows = chosen(options)
    if options.list:
        for row in rows:
            say(f"{row.group}: {row.name}")
        return
    # Brokers are stopped when this process ends, in whatever way.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    before = machine.look()
    say(before.describe())

    def keep_of_cluster(result: Result) -> None:
        if options.scale >= 1:
            write_cluster_page(result, before)

    try:
        results = compare(rows, options, keep_of_cluster)
    except (ToolMissing, BrokerFailed, LoadFailed) as error:
        sys.exit(f"bench: {error}")
    output = Console()
    output.width = max(output.width, TABLE_WIDTH_MIN)
    output.print(table(results, options.runs))
    alone = [result for result in results if not result.row.is_cluster]
    if alone:
        write_page(alone, before, options)


def write_page(results: Sequence[Result], before: Machine, options: argparse.Namespace) -> None:
    """Measures the parts, and writes the page if the run was complete."""
    is_with_parts = options.full and not options.no_parts
    parts = measure_parts(say) if is_with_parts else measure_quick_parts(say)
    if target := page_of(options):
        text = page.render(
            results,
            parts,
            before,
            command="make bench-full" if options.full else "make bench",
            kafka_version=VERSION,
            runs=options.runs,
            extent=extent_of(options),
            directory=target.stem,
        )
        page.write(target, text, page.plots(results))
        say(f"written to {target}")


if __name__ == "__main__":
    main()
