"""A streaming query that can be stopped and resumed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

# A machine that is busy with other things starts a query slowly.
QUERY_WAIT_S = 300


class Stream:
    """A query from a topic to files, which can be run again where it ended."""

    def __init__(self, spark: SparkSession, servers: str, topic: str, place: Path) -> None:
        self._spark = spark
        self._options = {
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        self._output = str(place / "output")
        self._checkpoint = str(place / "checkpoint")

    def start(
        self, *, is_endless: bool = False, source: str = "ottla", **options: str
    ) -> StreamingQuery:
        rows = self._spark.readStream.format(source).options(**self._options | options).load()
        writer = rows.writeStream.format("parquet").option("path", self._output)
        writer = writer.option("checkpointLocation", self._checkpoint)
        return (writer if is_endless else writer.trigger(availableNow=True)).start()

    def run(self, *, source: str = "ottla", **options: str) -> list[dict[str, Any]]:
        """Reads the available records, and returns the source's progress per batch."""
        query = self.start(source=source, **options)
        assert query.awaitTermination(QUERY_WAIT_S)
        return [
            json.loads(progress.json)["sources"][0]
            for progress in query.recentProgress
            if progress.numInputRows
        ]

    @contextmanager
    def running(self, **options: str) -> Iterator[StreamingQuery]:
        query = self.start(is_endless=True, **options)
        try:
            yield query
        finally:
            query.stop()

    def values(self) -> list[int]:
        schema = StructType().add("value", "binary")
        rows = self._spark.read.schema(schema).parquet(self._output).collect()
        return sorted(int(row.value) for row in rows)
