"""The progress of a reassignment: a bar on a terminal, else a line from time to time."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.cli.shared.sizes import size_text

# Between two lines that are no terminal's.
LINE_INTERVAL_S = 5.0


class Left(NamedTuple):
    """What is not done yet."""

    partitions: int
    size_bytes: int


Show = Callable[[Left], None]


@contextmanager
def progress(total: Left) -> Iterator[Show]:
    """Yields a function that shows what is left."""
    if sys.stderr.isatty():
        with _bar(total) as show:
            yield show
    else:
        yield _Lines().show


class _Lines:
    def __init__(self) -> None:
        self._next_s = time.monotonic() + LINE_INTERVAL_S

    def show(self, left: Left) -> None:
        now_s = time.monotonic()
        if left.partitions and now_s >= self._next_s:
            self._next_s = now_s + LINE_INTERVAL_S
            say(f"{counted(left.partitions, 'partition')} left, {size_text(left.size_bytes)}")


@contextmanager
def _bar(total: Left) -> Iterator[Show]:
    """By bytes, or by partitions if there is nothing to copy."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    in_bytes = total.size_bytes > 0
    amount = DownloadColumn() if in_bytes else TextColumn("")
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        whole = total.size_bytes if in_bytes else total.partitions
        task = bar.add_task(counted(total.partitions, "partition"), total=whole)

        def show(left: Left) -> None:
            remaining = left.size_bytes if in_bytes else left.partitions
            bar.update(
                task,
                completed=max(0, whole - remaining),
                description=f"{counted(left.partitions, 'partition')} left",
            )

        yield show
