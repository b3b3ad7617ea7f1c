"""The queries `activity` and `trending` over the topic of events."""

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ottla.spark.pipelines.streams import Streams
from ottla.spark.pipelines.trending.transform import activity, trending


def main(spark: SparkSession, streams: Streams) -> list[StreamingQuery]:
    """Starts both queries."""
    return [
        streams.start(spark, "activity", activity),
        streams.start(spark, "trending", trending),
    ]
