"""Topics as Spark SQL views, and the results and errors of a query over them."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import NumericType

from ottla.spark.frames import read
from ottla.spark.schema import HEADERS, TYPES

# The column of a view for a query without columns, such as `count(*)`.
CHEAPEST_COLUMN = "partition"
ERROR_CHARACTERS_MAX = 1_000
# How long to wait for Spark's counts of records read; Spark's own limit is ten seconds.
_LISTENERS_WAIT_MS = 60_000
# The session runs one query in one process: without a UI, and on the loopback interface only.
SESSION_CONF: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
}
# Java's optimizing compiler costs seconds at every start, and pays off from about ten million
# records on.
_QUICK_START_CONF = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
QUICK_START_OFFSETS_MAX = 10_000_000

_BYTES = ("key", "value")
# An error of our source inside the stack traces of Java and Python.
_OUR_ERROR = re.compile(r"^ottla\.[\w.]+: (.+)$", re.MULTILINE)


def conf_for(offsets: int) -> Mapping[str, str]:
    """The session settings for one query that reads at most so many offsets."""
    is_quick = offsets <= QUICK_START_OFFSETS_MAX
    return {**SESSION_CONF, **_QUICK_START_CONF} if is_quick else SESSION_CONF


def columns_of(names: Collection[str] | None) -> list[str]:
    """The columns of a topic among these lower-case names; None means all except headers."""
    if names is None:
        return [column for column in TYPES if column != HEADERS]
    return [column for column in TYPES if column.lower() in names] or [CHEAPEST_COLUMN]


def make_view(
    spark: SparkSession,
    topic: str,
    *,
    names: Collection[str] | None,
    is_text: bool,
    bootstrap_servers: str,
    options: Mapping[str, str],
) -> None:
    """Creates a view with the topic's name and its columns among `names`.

    With `is_text`, keys and values are strings, as the JSON functions require.
    """
    columns = columns_of(names)
    frame = read(
        spark, topic, columns=columns, bootstrap_servers=bootstrap_servers, options=options
    )
    if is_text:
        strings = {each: col(each).cast("string") for each in _BYTES if each in columns}
        frame = frame.withColumns(strings)
    frame.createOrReplaceTempView(f"`{topic}`")


def columns_with_kinds(frame: DataFrame) -> list[tuple[str, bool]]:
    """The columns' names, and whether each is numeric."""
    return [(field.name, isinstance(field.dataType, NumericType)) for field in frame.schema]


def rows_of(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    """The rows of one partition after another, prefetching the next: memory holds two of them."""
    return frame.toLocalIterator(prefetchPartitions=True)


def records_read(spark: SparkSession) -> int:
    """The number of records that Spark has read so far, from the status store of its UI."""
    context = spark.sparkContext
    java: Any = context._jsc.sc()
    java.listenerBus().waitUntilEmpty(_LISTENERS_WAIT_MS)
    gateway: Any = context._gateway
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    stages = java.statusStore().stageList(None, False, False, no_quantiles, None)
    return sum(int(stages.apply(at).inputRecords()) for at in range(stages.size()))


def is_query_error(error: Exception) -> bool:
    """Whether the query itself is invalid."""
    return isinstance(error, AnalysisException | ParseException)


def error_text(error: Exception) -> str:
    """An error's message without plans and stack traces; our source's own message if any."""
    text = str(error).strip()
    if ours := _OUR_ERROR.findall(text):
        return str(ours[-1])
    # Spark appends the plan after a semicolon, and the stack trace on indented lines.
    head = re.split(r";\n|\n\s*at |\n\nJVM stacktrace", text, maxsplit=1)[0].strip()
    return head[:ERROR_CHARACTERS_MAX]
