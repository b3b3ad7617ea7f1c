"""`ottla pipeline run`: starts the queries, tells how they get on, and stops them cleanly."""

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.cli.pipeline.spark_session import SparkChoice, open_session
from ottla.cli.shared.failure import Failure
from ottla.cli.shared.output import say
from ottla.seams.blocking import RealBlocking
from ottla.spark.pipelines.catalogue import Pipeline, pipeline_main
from ottla.spark.pipelines.streams import FolderSink, Streams
from ottla.spark.progress import BatchProgress, ProgressWatch

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
POLL_MS = 200
# How an error of ours begins a line in what Spark says about it.
_OUR_ERROR = re.compile(r"^(?:\w+\.)*ottla\.[\w.]+: (.+)$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)


class Stop:
    """Whether a signal has asked for the end."""

    def __init__(self) -> None:
        self.is_asked = False


def run_pipeline(pipeline: Pipeline, streams: Streams, choice: SparkChoice) -> None:
    """Returns after a stop by SIGTERM or SIGINT, or at the end that was asked for. Failure."""
    spark = open_session(pipeline.name, choice)
    try:
        with stop_by_signals() as stop:
            try:
                queries = pipeline_main(pipeline)(spark, streams)
                _say_start(pipeline, streams)
                _follow(queries, stop)
            except PySparkException as error:
                raise failure_of(error) from error
            finally:
                _stop(spark)
    finally:
        spark.stop()


@contextmanager
def stop_by_signals() -> Iterator[Stop]:
    """The first signal asks for the end; the next one ends the process as it always would."""
    stop = Stop()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.is_asked = True
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_DFL)

    before = {each: signal.signal(each, on_signal) for each in STOP_SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _follow(queries: Sequence[StreamingQuery], stop: Stop) -> None:
    """Tells every batch until all queries have ended, or the end is asked for.

    PySparkException if one fails; once the end is asked for, what fails is of no interest: a
    terminal interrupts Spark's workers as well, and the next run does the batch again.
    """
    watch = ProgressWatch(queries)
    blocking = RealBlocking()
    while not stop.is_asked:
        is_over = not any(query.isActive for query in queries)
        for progress in watch.new():
            say(line(progress))
        for query in queries:
            # Here, so that a stop that came first is not taken for a failure.
            error = query.exception()
            if error is not None and not stop.is_asked:
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


def line(progress: BatchProgress) -> str:
    """A batch in words."""
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


def failure_of(error: PySparkException) -> Failure:
    """What Spark has to say about a failure, without its traces."""
    said = str(error)
    if "Failed to find data source: kafka" in said or "[DATA_SOURCE_NOT_FOUND]" in said:
        return Failure(
            "Spark's Kafka connector is not there",
            advice="--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION,"
            " or --source ottla, which needs no jar",
        )
    return Failure(
        "the pipeline has failed",
        why=_why(said),
        advice="run it again: it goes on where it ended; `ottla --debug …` shows all of it",
    )


def _why(said: str) -> str:
    """In our own words if there are any, else in Spark's: what failed, and what made it fail."""
    if ours := _OUR_ERROR.findall(said):
        return str(ours[-1])
    what = said.strip().partition("\n")[0]
    causes = [cause for cause in _CAUSE.findall(said) if cause not in what]
    return f"{what}: {causes[-1]}" if causes else what
