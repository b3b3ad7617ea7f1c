"""A progress bar on standard error, if it is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Work below this size ends too soon for a progress bar.
SHOWN_BYTES_MIN = 64 << 20

Advance = Callable[[int], None]


def no_progress(_: int) -> None:
    """Reports nothing."""


@contextmanager
def progress_of(what: str, total_bytes: int) -> Iterator[Advance]:
    """Yields a function that advances the bar by a number of bytes. Only large work on a terminal
    shows a bar."""
    if total_bytes < SHOWN_BYTES_MIN or not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total_bytes)
        yield lambda done: bar.advance(task, done)
