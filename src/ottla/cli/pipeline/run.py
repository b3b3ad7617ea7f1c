"""`ottla pipeline run`: starts the queries, reports their progress, and stops them cleanly."""

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.cli.pipeline.spark_session import SparkSettings, open_session
from ottla.cli.shared.failure import Failure
from ottla.cli.shared.output import say
from ottla.seams.blocking import RealBlocking
from ottla.spark.pipelines.catalogue import Pipeline, pipeline_main
from ottla.spark.pipelines.streams import FolderSink, Streams
from ottla.spark.progress import BatchProgress, ProgressWatch

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
POLL_MS = 200
# The line of an error of ours in Spark's message.
_OUR_ERROR = re.compile(r"^(?:\w+\.)*ottla\.[\w.]+: (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)


class StopRequest:
    """Whether a signal has requested the end."""

    def __init__(self) -> None:
        self.is_requested = False


def run_pipeline(pipeline: Pipeline, streams: Streams, settings: SparkSettings) -> None:
    """Returns after SIGTERM or SIGINT, or at the requested end of the topic. Failure."""
    spark = open_session(pipeline.name, settings)
    try:
        with stop_on_signals() as stop:
            try:
                queries = pipeline_main(pipeline)(spark, streams)
                _say_start(pipeline, streams)
                _report_batches(queries, stop)
            except PySparkException as error:
                raise spark_failure(error) from error
            finally:
                _stop(spark)
    finally:
        spark.stop()


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """The first signal requests the end; the next one has its default action."""
    stop = StopRequest()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.is_requested = True
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_DFL)

    before = {each: signal.signal(each, on_signal) for each in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _report_batches(queries: Sequence[StreamingQuery], stop: StopRequest) -> None:
    """Reports every batch until all queries have ended or a stop is requested.

    PySparkException if a query fails. After a stop request failures are ignored: a terminal
    interrupts Spark's workers as well, and the next run repeats the batch.
    """
    watch = ProgressWatch(queries)
    blocking = RealBlocking()
    while not stop.is_requested:
        is_over = not any(query.isActive for query in queries)
        for progress in watch.new():
            say(progress_line(progress))
        for query in queries:
            # Read before the stop request: a stop is not a failure.
            error = query.exception()
            if error is not None and not stop.is_requested:
                raise error
        if is_over:
            return
        blocking.pause(POLL_MS)


def _stop(spark: SparkSession) -> None:
    for query in spark.streams.active:
        query.stop()


def _say_start(pipeline: Pipeline, streams: Streams) -> None:
    target = streams.target
    where = f"{target.path}/" if isinstance(target, FolderSink) else "standard output"
    say(f"{pipeline.name}: {streams.topic} at {streams.bootstrap_servers} to {where}")


def progress_line(progress: BatchProgress) -> str:
    """One line about a batch."""
    words = [
        f"{progress.query} batch {progress.batch}: {progress.rows:,} rows",
        f"{progress.rows_per_s:,.0f} rows/s",
        f"{progress.batch_ms / 1000:.2f} s",
    ]
    if progress.lag is not None:
        words.append(f"lag {progress.lag:,}")
    if progress.watermark is not None:
        words.append(f"watermark {progress.watermark:%Y-%m-%dT%H:%M:%S}Z")
    if progress.late:
        words.append(f"{progress.late:,} too late")
    if unusable := progress.observed.get("unusable"):
        words.append(f"{unusable:,} unusable")
    return ", ".join(words)


def spark_failure(error: PySparkException) -> Failure:
    """The Failure for an error of Spark, without stack traces."""
    text = str(error)
    if "Failed to find data source: kafka" in text or "[DATA_SOURCE_NOT_FOUND]" in text:
        return Failure(
            "Spark's Kafka connector is missing",
            advice="--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION,"
            " or --source ottla, which needs no jar",
        )
    return Failure(
        "the pipeline has failed",
        why=_why(text),
        advice="run it again to resume it; `ottla --debug …` prints the whole error",
    )


def _why(text: str) -> str:
    """Our own message if there is one, otherwise Spark's message and its first cause."""
    if ours := _OUR_ERROR.findall(text):
        return str(ours[-1])
    what = text.strip().partition("\n")[0]
    causes = [cause for cause in _CAUSE.findall(text) if cause not in what]
    return f"{what}: {causes[-1]}" if causes else what
