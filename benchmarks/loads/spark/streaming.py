"""Reads a topic by a streaming query that ends at the topic's end. Runs in the child."""

import shutil
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

QUERY_S_MAX = 600


def stream_of(spark: SparkSession, source: str, servers: str, topic: str) -> DataFrame:
    """A stream of the topic from its beginning."""
    reader = spark.readStream.format(source).option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def available_now(
    spark: SparkSession, place: Path, *, source: str, servers: str, topic: str, rows: int
) -> dict[str, float]:
    """Seconds of the micro-batches only, and of the query from its start to its end."""
    checkpoint = place / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    frame = stream_of(spark, source, servers, topic)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    began = time.monotonic()
    query = writer.trigger(availableNow=True).start()
    if not query.awaitTermination(QUERY_S_MAX):
        query.stop()
        raise TimeoutError(f"the query did not end in {QUERY_S_MAX} s")
    whole_s = time.monotonic() - began
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    read = sum(batch.numInputRows for batch in batches)
    if read != rows:
        raise ValueError(f"{source} read {read:,} of {rows:,} rows")
    batch_ms = sum(batch.durationMs["addBatch"] for batch in batches)
    return {"batch_s": batch_ms / 1e3, "whole_s": whole_s}
