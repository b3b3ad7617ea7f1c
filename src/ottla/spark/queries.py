"""Topics as views of Spark's SQL, and what becomes of one query over them."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import NumericType

from ottla.spark.frames import read
from ottla.spark.schema import HEADERS, TYPES

# What a view has if a query uses no column at all: `count(*)` counts rows of something.
CHEAPEST_COLUMN = "partition"
SAID_CHARACTERS_MAX = 1_000
# How long Spark may take to count what it has done; left to itself it gives up after ten seconds.
_LISTENERS_WAIT_MS = 60_000
# One query of one process: nothing to look at in a browser, nobody to talk to beyond this machine.
SESSION_CONF: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.enabled": "false",
}
# Java's second compiler takes seconds of every start; from about ten million records on, a query is
# sooner done with it.
_QUICK_START_CONF = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1"}
QUICK_START_OFFSETS_MAX = 10_000_000

_BYTES = ("key", "value")
# What the source itself has said, deep in the traces of Java and of Python.
_SAID_BY_US = re.compile(r"^ottla\.[\w.]+: (.+)$", re.MULTILINE)


def conf_for(offsets: int) -> Mapping[str, str]:
    """Settings of a session for one query that reads so many offsets at most."""
    is_quick = offsets <= QUICK_START_OFFSETS_MAX
    return {**SESSION_CONF, **_QUICK_START_CONF} if is_quick else SESSION_CONF


def columns_of(names: Collection[str] | None) -> list[str]:
    """The columns of a topic that are among these names in lower case; None is all but headers."""
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
    """Puts a topic under its own name, with the columns among `names`.

    With `is_text` keys and values are strings, as functions of JSON take them.
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
    """The names of the columns, and whether each holds numbers."""
    return [(field.name, isinstance(field.dataType, NumericType)) for field in frame.schema]


def rows_of(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    """One partition after the other, while the next one is computed: memory holds two of them."""
    return frame.toLocalIterator(prefetchPartitions=True)


def records_read(spark: SparkSession) -> int:
    """How many records Spark has read for its queries so far. It tells that to its own UI only."""
    context = spark.sparkContext
    java: Any = context._jsc.sc()
    java.listenerBus().waitUntilEmpty(_LISTENERS_WAIT_MS)
    gateway: Any = context._gateway
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    stages = java.statusStore().stageList(None, False, False, no_quantiles, None)
    return sum(int(stages.apply(at).inputRecords()) for at in range(stages.size()))


def is_querys_fault(error: Exception) -> bool:
    """Whether Spark refuses the query as it is written."""
    return isinstance(error, AnalysisException | ParseException)


def said_by(error: Exception) -> str:
    """What is wrong, without plans and traces: in the words of the source if it has said any."""
    text = str(error).strip()
    if ours := _SAID_BY_US.findall(text):
        return str(ours[-1])
    # Spark puts the plan behind a semicolon, and a stack behind tabs.
    head = re.split(r";\n|\n\s*at |\n\nJVM stacktrace", text, maxsplit=1)[0].strip()
    return head[:SAID_CHARACTERS_MAX]
