"""A topic as a DataFrame in one call, with what Spark cannot find out by itself."""

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
    """What a topic has now, or what `options` say.

    Spark does not tell a source which columns a query uses: name them, and no others are moved.
    Conditions narrow what is fetched if the session lets them.
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
    """What comes to a topic from now on, or from where `options` say."""
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
