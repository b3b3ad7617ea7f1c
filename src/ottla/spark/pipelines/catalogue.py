"""Which pipelines there are. Imports nothing of Spark: a list of names should not wait for it."""

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
    """A case that can be run: `queries` are what it writes, a folder each."""

    name: str
    purpose: str
    topic: str
    queries: tuple[str, ...]


class Made(NamedTuple):
    """A record that was made up; `timestamp_ms` is when it came in."""

    key: bytes
    value: bytes
    timestamp_ms: int


# Endless, in the order in which records come in: from a seed, the time of the first one, and how
# many things happen in a second.
Generate = Callable[[int, int, float], Iterator[Made]]

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


def main_of(pipeline: Pipeline) -> "Main":
    """Starts the queries of a pipeline. Imports Spark."""
    return cast("Main", import_module(f"{__package__}.{pipeline.name}.main").main)


def generate_of(pipeline: Pipeline) -> Generate:
    """Makes records for a pipeline's topic."""
    return cast("Generate", import_module(f"{__package__}.{pipeline.name}.generate").generate)
