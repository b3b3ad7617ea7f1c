"""`ottla sql`: finds what a query names, lets Spark run it, and prints what comes back."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from ottla.cli.shared.connect import reach
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.cli.shared.spark_required import require_spark
from ottla.cli.sql.commands import ResultFormat
from ottla.cli.sql.results import result_writer
from ottla.cli.sql.spark_process import SparkProcess
from ottla.cli.sql.tables import Query, read_query
from ottla.cli.sql.tokens import BadQuery
from ottla.cli.sql.topics import Extent, Part, parts_of
from ottla.cli.sql.worker_protocol import (
    Column,
    Columns,
    Done,
    Failed,
    Message,
    Order,
    Row,
    Started,
)
from ottla.seams.clock import RealClock

_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the user wants to know."""

    query: str
    extent: Extent
    is_text: bool
    rows_max: int | None
    conf: Mapping[str, str]


@dataclass(slots=True)
class Progress:
    """What is told when it is over."""

    rows: int = 0
    records: int = 0


def run_query(wish: Wish, output: ResultFormat, bootstrap: str, timeout_s: float) -> None:
    """Prints the rows, then how many there were. Failure, before Spark starts where that can be."""
    clock = RealClock()
    began_ns = clock.steady_ns()
    query = _read(wish.query)
    require_spark()
    parts: dict[str, Part] = {}
    if query.topics:
        parts = reach(
            bootstrap, timeout_s, lambda router: parts_of(router, query.topics, wish.extent)
        )
    order = Order(
        query=query.text,
        topics={topic: part.options for topic, part in parts.items()},
        bootstrap_servers=bootstrap,
        offsets=sum(part.offsets for part in parts.values()),
        names=None if query.names is None else sorted(query.names),
        is_text=wish.is_text,
        rows_max=wish.rows_max,
        conf=wish.conf,
    )
    with (
        _log_kept_on_failure() as (log_path, log_descriptor),
        SparkProcess(order, log_descriptor) as spark,
    ):
        progress = print_answers(spark.answers(), output, log_path)
        seconds = (clock.steady_ns() - began_ns) / _NS_PER_S
        rows, records = counted(progress.rows, "row"), counted(progress.records, "record")
        say(f"{rows}, {records} read, {seconds:.1f} s")


def _read(text: str) -> Query:
    try:
        return read_query(text)
    except BadQuery as error:
        raise Failure("the query cannot be run", why=str(error), exit_code=ExitCode.USAGE) from None


def print_answers(
    answers: Iterator[Message | Row], output: ResultFormat, log_path: str
) -> Progress:
    """Writes each row as it comes. Failure if not all of them come."""
    told = _until_done(answers, log_path)
    columns: list[Column] = []
    with _spinner("starting Spark") as tell:
        for answer in told:
            match answer:
                case Started():
                    tell("running the query")
                case Columns():
                    columns = answer.columns
                case first:
                    # No row comes before the query has run.
                    break
    writer = result_writer(output, columns, sys.stdout)
    progress = Progress()
    for answer in chain([first], told):
        match answer:
            case list():
                writer.write(answer)
                progress.rows += 1
            case Done(records):
                progress.records = records
    writer.close()
    return progress


def _until_done(answers: Iterator[Message | Row], log_path: str) -> Iterator[Message | Row]:
    """What Spark says; the last is that it is done. Failure if it says or does anything else."""
    for answer in answers:
        if isinstance(answer, Failed):
            raise _failure(answer, log_path)
        yield answer
        if isinstance(answer, Done):
            return
    raise Failure("Spark has ended before the query", advice=f"see its log, {log_path}")


def _failure(failed: Failed, log_path: str) -> Failure:
    if failed.is_query_error:
        needs_text = '"BINARY"' in failed.what
        return Failure(
            failed.what,
            advice="--text, which makes strings of keys and values" if needs_text else None,
            exit_code=ExitCode.USAGE,
        )
    return Failure(failed.what, advice=f"see Spark's log, {log_path}")


@contextmanager
def _spinner(what: str) -> Iterator[Callable[[str], None]]:
    """Yields what to call with what is waited for next. On a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield status.update


@contextmanager
def _log_kept_on_failure() -> Iterator[tuple[str, int]]:
    """A file for all that Spark and Java print; it stays only if an error names it."""
    descriptor, path = tempfile.mkstemp(prefix="ottla-sql-", suffix=".log")
    is_named = False
    try:
        yield path, descriptor
    except Failure as failure:
        is_named = path in (failure.advice or "")
        raise
    finally:
        os.close(descriptor)
        if not is_named:
            os.unlink(path)
