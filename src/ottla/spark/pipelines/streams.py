"""Where the queries of a pipeline read, and where they write: all that differs from run to run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructField, StructType

from ottla.seams.blocking import Blocking, RealBlocking
from ottla.spark.schema import TYPES

OTTLA = "ottla"
# All that pipelines use of a record: what is not named is not moved.
COLUMNS = ("value", "timestamp")
# What the status of a query says until it has its source.
INITIALIZING = "Initializing"
LOOK_MS = 20

Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Folder:
    """Parquet in a folder for each query, beside the checkpoints: each row once, whatever fails.

    `path` may be of any file system that Spark knows, and is seen by every node.
    """

    path: str


@dataclass(frozen=True, slots=True)
class Console:
    """Tables on standard output. Nothing is kept: every run begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Where a run of a pipeline reads and writes.

    `source` is `ottla`, or `kafka` for Spark's own connector: options and checkpoints are the same.
    """

    pipeline: str
    bootstrap_servers: str
    topic: str
    target: Folder | Console
    source: str = OTTLA
    options: Mapping[str, str] = field(default_factory=dict)
    # Ends where the topic ended when it began, rather than never.
    is_until_end: bool = False

    def start(self, spark: SparkSession, query: str, transform: Transform) -> StreamingQuery:
        """A query from the topic through `transform`; it goes on where its last run ended.

        Returns once it has its source, so that another query can be started.
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
            # Each query has a place of its own in the topic, and so a group of its own.
            given["groupId"] = f"ottla-pipeline-{self.pipeline}-{query}"
            reader = reader.schema(StructType([StructField(name, TYPES[name]) for name in COLUMNS]))
        return reader.options(**given | dict(self.options)).load().select(*COLUMNS)

    def _written(self, writer: DataStreamWriter, query: str) -> DataStreamWriter:
        match self.target:
            case Console():
                return writer.format("console").option("truncate", "false")
            case Folder(path):
                writer = writer.format("parquet").option("path", f"{path}/{query}")
                return writer.option("checkpointLocation", f"{path}/checkpoints/{query}")


def await_source(query: StreamingQuery, blocking: Blocking) -> None:
    """Returns once a query has its source, or has ended.

    All queries of a session share the map of variables that Spark gives to the workers of a source
    in Python, and each adds to it, unguarded, when it makes its source. Two that do so at once may
    leave a map that cannot be sent any more: then every task of theirs is "not serializable".
    """
    while query.isActive and query.status["message"].startswith(INITIALIZING):
        blocking.pause(LOOK_MS)
