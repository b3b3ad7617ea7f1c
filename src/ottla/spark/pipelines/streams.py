"""The source and the sink of a pipeline's queries: all that differs between runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructField, StructType

from ottla.seams.blocking import Blocking, RealBlocking
from ottla.spark.schema import TYPES

OTTLA = "ottla"
# The columns that pipelines use; no others are fetched.
COLUMNS = ("value", "timestamp")
# The status of a query until its source is created.
INITIALIZING = "Initializing"
POLL_MS = 20

Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class FolderSink:
    """Parquet in one folder per query, beside the checkpoints: each row exactly once.

    `path` may be on any file system of Spark, and every node must be able to access it.
    """

    path: str


@dataclass(frozen=True, slots=True)
class ConsoleSink:
    """Tables on standard output. There is no checkpoint: every run starts over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The source and the sink of a run.

    `source` is `ottla`, or `kafka` for Spark's Kafka connector, with the same options and
    checkpoints.
    """

    pipeline: str
    bootstrap_servers: str
    topic: str
    target: FolderSink | ConsoleSink
    source: str = OTTLA
    options: Mapping[str, str] = field(default_factory=dict)
    # Whether the run stops at the end that the topic had at its start.
    is_until_end: bool = False

    def start(self, spark: SparkSession, query: str, transform: Transform) -> StreamingQuery:
        """Starts a query from the topic through `transform`, from its checkpoint if it has one.

        Returns once its source is created, so that another query can be started.
        """
        writer = transform(self._records(spark, query)).writeStream.queryName(query)
        writer = self._written(writer, query)
        if self.is_until_end:
            writer = writer.trigger(availableNow=True)
        started = writer.start()
        await_source(started, RealBlocking())
        return started

    def _records(self, spark: SparkSession, query: str) -> DataFrame:
        given = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
        }
        reader = spark.readStream.format(self.source)
        if self.source == OTTLA:
            # Each query has its own position in the topic, and so its own group.
            given["groupId"] = f"ottla-pipeline-{self.pipeline}-{query}"
            reader = reader.schema(StructType([StructField(name, TYPES[name]) for name in COLUMNS]))
        return reader.options(**given | dict(self.options)).load().select(*COLUMNS)

    def _written(self, writer: DataStreamWriter, query: str) -> DataStreamWriter:
        match self.target:
            case ConsoleSink():
                return writer.format("console").option("truncate", "false")
            case FolderSink(path):
                writer = writer.format("parquet").option("path", f"{path}/{query}")
                return writer.option("checkpointLocation", f"{path}/checkpoints/{query}")


def await_source(query: StreamingQuery, blocking: Blocking) -> None:
    """Waits until the source of a query is created, or the query has ended.

    All queries of a session share one map of environment variables for Python workers. Each adds to
    it without a lock when it creates its source. Two that do so at the same time can corrupt the
    map: then all their tasks fail as "not serializable".
    """
    while query.isActive and query.status["message"].startswith(INITIALIZING):
        blocking.pause(POLL_MS)
