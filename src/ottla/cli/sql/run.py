"""`ottla sql`: finds the topics of a query, runs it in Spark, and prints its rows."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

from ottla.cli.shared.connect import run_with_cluster
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.cli.shared.spark_required import require_spark
from ottla.cli.sql.commands import ResultFormat
from ottla.cli.sql.results import result_writer
from ottla.cli.sql.spark_process import SparkProcess
from ottla.cli.sql.tables import Query, read_query
from ottla.cli.sql.tokens import BadQuery
from ottla.cli.sql.topics import QueryRange, TopicSource, topic_sources
from ottla.cli.sql.worker_protocol import (
    Column,
    Done,
    Failed,
    Message,
    QueryJob,
    ResultColumns,
    ResultRow,
    Started,
)
from ottla.seams.clock import RealClock

_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlOptions:
    """The options of `ottla sql`."""

    query: str
    query_range: QueryRange
    is_text: bool
    rows_max: int | None
    conf: Mapping[str, str]


@dataclass(slots=True)
class QueryCounts:
    """The counts printed after a query."""

    rows: int = 0
    records: int = 0


def run_query(options: SqlOptions, output: ResultFormat, bootstrap: str, timeout_s: float) -> None:
    """Prints the rows, then their number. Failure, before Spark starts if possible."""
    clock = RealClock()
    began_ns = clock.steady_ns()
    query = _read(options.query)
    require_spark()
    sources: dict[str, TopicSource] = {}
    if query.topics:
        sources = run_with_cluster(
            bootstrap,
            timeout_s,
            lambda router: topic_sources(router, query.topics, options.query_range),
        )
    job = QueryJob(
        query=query.text,
        topics={topic: source.options for topic, source in sources.items()},
        bootstrap_servers=bootstrap,
        offsets=sum(source.offsets for source in sources.values()),
        names=None if query.names is None else sorted(query.names),
        is_text=options.is_text,
        rows_max=options.rows_max,
        conf=options.conf,
    )
    with (
        _log_kept_on_failure() as (log_path, log_descriptor),
        SparkProcess(job, log_descriptor) as spark,
    ):
        counts = print_results(spark.messages(), output, log_path)
        seconds = (clock.steady_ns() - began_ns) / _NS_PER_S
        rows, records = counted(counts.rows, "row"), counted(counts.records, "record")
        say(f"{rows}, {records} read, {seconds:.1f} s")


def _read(text: str) -> Query:
    try:
        return read_query(text)
    except BadQuery as error:
        raise Failure("the query cannot be run", why=str(error), exit_code=ExitCode.USAGE) from None


def print_results(
    messages: Iterator[Message | ResultRow], output: ResultFormat, log_path: str
) -> QueryCounts:
    """Writes each row as it arrives. Failure if the query fails."""
    until_done = _until_done(messages, log_path)
    columns: list[Column] = []
    with _spinner("starting Spark") as update:
        for message in until_done:
            match message:
                case Started():
                    update("running the query")
                case ResultColumns():
                    columns = message.columns
                case first:
                    # The first row, or Done.
                    break
    writer = result_writer(output, columns, sys.stdout)
    counts = QueryCounts()
    for message in chain([first], until_done):
        match message:
            case list():
                writer.write(message)
                counts.rows += 1
            case Done(records):
                counts.records = records
    writer.close()
    return counts


def _until_done(
    messages: Iterator[Message | ResultRow], log_path: str
) -> Iterator[Message | ResultRow]:
    """The messages up to Done. Failure if the query fails or Spark ends before."""
    for message in messages:
        if isinstance(message, Failed):
            raise _failure(message, log_path)
        yield message
        if isinstance(message, Done):
            return
    raise Failure("Spark ended before the query was done", advice=f"see its log, {log_path}")


def _failure(failed: Failed, log_path: str) -> Failure:
    if failed.is_query_error:
        needs_text = '"BINARY"' in failed.what
        return Failure(
            failed.what,
            advice="--text, which reads keys and values as strings" if needs_text else None,
            exit_code=ExitCode.USAGE,
        )
    return Failure(failed.what, advice=f"see Spark's log, {log_path}")


@contextmanager
def _spinner(what: str) -> Iterator[Callable[[str], None]]:
    """Shows a spinner on a terminal. Yields a function that changes its text."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield status.update


@contextmanager
def _log_kept_on_failure() -> Iterator[tuple[str, int]]:
    """A file for the output of Spark and Java; it is kept only if an error names it."""
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
