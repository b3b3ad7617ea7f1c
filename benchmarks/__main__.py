"""`make bench`: compares our broker with Apache Kafka row by row, and writes the page."""

import argparse
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks import machine, page
from benchmarks.cache import CACHE, ROOT, ToolMissing
from benchmarks.loads.spark.process import ended_afterwards
from benchmarks.parts import measure_parts, measure_quick_parts
from benchmarks.peers.kafka import VERSION, Kafka
from benchmarks.peers.ours import Ours
from benchmarks.peers.peer import BrokerFailed
from benchmarks.results import Result
from benchmarks.row import LoadFailed, Row
from benchmarks.rows import ROWS
from benchmarks.running import Contest, run_rows, warm_up
from benchmarks.table import table

PAGE = ROOT / "docs" / "benchmarks.md"
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
    parser.add_argument("--runs", type=int, default=3, help="runs per row and broker")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for counts and seconds")
    parser.add_argument("--warm-up", type=float, default=15.0, metavar="SECONDS")
    parser.add_argument(
        "--no-parts", action="store_true", help="with --full: without the codec and the log"
    )
    parser.add_argument("--list", action="store_true", help="list the rows and run none")
    parser.add_argument(
        "--page",
        type=Path,
        help="file to write; by default docs/benchmarks.md, if the run was complete",
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


def compare(rows: Sequence[Row], options: argparse.Namespace) -> list[Result]:
    if not rows:
        return []
    with workplace() as directory, ended_afterwards():
        say("starting Apache Kafka and ours")
        with Kafka(directory / "kafka") as kafka, Ours(directory / "ours") as ours:
            for peer in (kafka, ours):
                say(f"warming up {peer.name} for {options.warm_up:.0f} s")
                for wrong in sorted(warm_up(peer, options.warm_up)):
                    say(f"  {wrong}")
            contest = Contest(kafka, ours, options.runs, options.scale, not options.full)
            return run_rows(rows, contest, say)


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
    try:
        results = compare(rows, options)
    except (ToolMissing, BrokerFailed, LoadFailed) as error:
        sys.exit(f"bench: {error}")
    is_with_parts = options.full and not options.no_parts
    parts = measure_parts(say) if is_with_parts else measure_quick_parts(say)
    output = Console()
    output.width = max(output.width, TABLE_WIDTH_MIN)
    output.print(table(results, options.runs))
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
