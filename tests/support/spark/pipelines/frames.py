"""Records as DataFrames, and rows of a pipeline in the form of the model."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from ottla.spark.pipelines.catalogue import GeneratedRecord
from tests.support.spark.pipelines.trending_model import Activity, Trend

SCHEMA = "value binary, timestamp timestamp"


def frame_of(spark: SparkSession, records: Sequence[GeneratedRecord]) -> DataFrame:
    """As a topic would give them."""
    rows = [
        (bytearray(record.value), datetime.fromtimestamp(record.timestamp_ms / 1000, UTC))
        for record in records
    ]
    return spark.createDataFrame(rows, SCHEMA)


def activity_rows(frame: DataFrame) -> list[Activity]:
    seconds = frame.selectExpr(
        "unix_seconds(window_start)", "unix_seconds(window_end)", "post_id", "likes", "comments"
    )
    return sorted(Activity(*row) for row in seconds.collect())


def trend_rows(frame: DataFrame) -> list[Trend]:
    seconds = frame.selectExpr(
        "unix_seconds(window_start)",
        "unix_seconds(window_end)",
        "rank",
        "post_id",
        "likes",
        "comments",
        "score",
    )
    return sorted(Trend(*row) for row in seconds.collect())
