"""How far a long piece of work has come: a bar on standard error, if somebody looks at it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Below this a bar would be gone before it is read.
SHOWN_BYTES_MIN = 64 << 20

Advance = Callable[[int], None]


def no_progress(_: int) -> None:
    """For work that nobody watches."""


@contextmanager
def progress_of(what: str, total_bytes: int) -> Iterator[Advance]:
    """Yields what to call with the bytes that were done. On a terminal only, and if it is much."""
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
