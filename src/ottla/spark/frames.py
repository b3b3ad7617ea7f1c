"""A topic as a DataFrame in one call, with the columns and options that Spark cannot infer."""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from ottla.client.connection.bootstrap import BOOTSTRAP_SERVERS_DEFAULT
from ottla.spark import option_table as table
from ottla.spark.schema import TYPES, BadSchema

_PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"


def read(
    spark: SparkSession,
    topic: str,
    *,
    columns: Iterable[str] | None = None,
    bootstrap_servers: str = BOOTSTRAP_SERVERS_DEFAULT,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records of a topic, by default all that it has now.

    Spark does not pass a query's columns to a source. Name the `columns`, and no others are
    fetched. Filters are pushed down if the session allows it.
    """
    given = _given(topic, bootstrap_servers, options)
    if spark.conf.get(_PUSHDOWN_CONF, "false") == "true":
        given = {table.FILTER_PUSHDOWN.name: "true"} | given
    reader = spark.read.format("ottla").options(**given)
    return (reader if columns is None else reader.schema(_only(columns))).load()


def read_stream(
    spark: SparkSession,
    topic: str,
    *,
    columns: Iterable[str] | None = None,
    bootstrap_servers: str = BOOTSTRAP_SERVERS_DEFAULT,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records that arrive in a topic, by default from now on."""
    reader = spark.readStream.format("ottla").options(**_given(topic, bootstrap_servers, options))
    return (reader if columns is None else reader.schema(_only(columns))).load()


def _given(topic: str, bootstrap_servers: str, options: Mapping[str, str] | None) -> dict[str, str]:
    named = {table.SUBSCRIBE.name: topic, table.BOOTSTRAP_SERVERS.name: bootstrap_servers}
    return named | dict(options or {})


def _only(columns: Iterable[str]) -> StructType:
    names = list(columns)
    for name in names:
        if name not in TYPES:
            raise BadSchema(f"a topic has no column {name}: it has {', '.join(TYPES)}")
    return StructType([StructField(name, TYPES[name]) for name in names])
