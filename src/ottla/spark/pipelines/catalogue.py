"""The list of all pipelines. It does not import Spark, so that listing names stays quick."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.spark.pipelines.streams import Streams

    Main = Callable[[SparkSession, Streams], list[StreamingQuery]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipeline; each of its `queries` writes to a folder of its own."""

    name: str
    purpose: str
    topic: str
    queries: tuple[str, ...]


class GeneratedRecord(NamedTuple):
    """A generated record; `timestamp_ms` is its time of arrival."""

    key: bytes
    value: bytes
    timestamp_ms: int


# From a seed, the time of the first event and the events per second: endless records in order of
# arrival.
Generate = Callable[[int, int, float], Iterator[GeneratedRecord]]

PIPELINES: Mapping[str, Pipeline] = {
    each.name: each
    for each in (
        Pipeline(
            name="trending",
            purpose="Likes and comments of each post, and which posts trend.",
            topic="social.events",
            queries=("activity", "trending"),
        ),
    )
}


def pipeline_main(pipeline: Pipeline) -> "Main":
    """The function that starts the queries of a pipeline. Imports Spark."""
    return cast("Main", import_module(f"{__package__}.{pipeline.name}.main").main)


def pipeline_generator(pipeline: Pipeline) -> Generate:
    """The function that generates records for a pipeline's topic."""
    return cast("Generate", import_module(f"{__package__}.{pipeline.name}.generate").generate)
