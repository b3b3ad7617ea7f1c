"""Where the queries of a pipeline read, and where they write: all that differs from run to run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructField, StructType

from ottla.spark.schema import TYPES

OTTLA = "ottla"
# All that pipelines use of a record: what is not named is not moved.
COLUMNS = ("value", "timestamp")

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
        """A query from the topic through `transform`; it goes on where its last run ended."""
        writer = transform(self._records(spark, query)).writeStream.queryName(query)
        writer = self._written(writer, query)
        if self.is_until_end:
            writer = writer.trigger(availableNow=True)
        return writer.start()

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
