"""Reads a whole topic by one batch query into a sink. Runs in the child."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json

from benchmarks.loads.spark.jobs import JobWatch

EVENT = "user_id long, event string, device string, position_s double, at_ms long, title string"


def scan(
    spark: SparkSession,
    place: Path,
    *,
    source: str,
    servers: str,
    topic: str,
    rows: int,
    sink: str,
) -> dict[str, float]:
    """Seconds of the jobs only, and of the whole query."""
    began = time.monotonic()
    reader = spark.read.format(source).option("kafka.bootstrap.servers", servers)
    frame = reader.option("subscribe", topic).load()
    watch = JobWatch(spark)
    read = SINKS[sink](frame, place)
    whole_s = time.monotonic() - began
    if read not in (None, rows):
        raise ValueError(f"{source} read {read:,} of {rows:,} rows")
    return {"job_s": watch.seconds(), "whole_s": whole_s}


def _count(frame: DataFrame, _place: Path) -> int:
    return frame.count()


def _noop(frame: DataFrame, _place: Path) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _parquet(frame: DataFrame, place: Path) -> None:
    target = place / "parquet"
    try:
        frame.write.mode("overwrite").parquet(str(target))
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _json(frame: DataFrame, place: Path) -> None:
    events = frame.select(from_json(col("value").cast("string"), EVENT).alias("event"))
    _noop(events.select("event.*"), place)


# Each returns the number of rows, if it knows it.
SINKS: dict[str, Callable[[DataFrame, Path], int | None]] = {
    "count": _count,
    "noop": _noop,
    "parquet": _parquet,
    "json": _json,
}
