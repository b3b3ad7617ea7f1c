"""A topic's columns are the connector's, and batches have exactly the schema that Spark expects."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from ottla.client.arrow.schema import COLUMNS, arrow_schema
from ottla.spark.schema import BadSchema, batch_schema, projection, topic_schema


def test_spark_and_the_client_mean_the_same_columns() -> None:
    schema = topic_schema(include_headers=True)
    assert tuple(schema.fieldNames()) == COLUMNS
    assert batch_schema(schema).equals(arrow_schema(COLUMNS))


def test_headers_are_included_if_requested() -> None:
    assert topic_schema(include_headers=False).fieldNames() == list(COLUMNS[:-1])


def test_a_schema_says_which_columns_are_read_and_in_which_order() -> None:
    schema = StructType().add("offset", LongType(), False).add("value", BinaryType())
    assert projection(schema) == ("offset", "value")
    assert not batch_schema(schema).field("offset").nullable


def test_headers_may_promise_to_have_no_nulls() -> None:
    header = StructType(
        [StructField("key", StringType(), False), StructField("value", BinaryType())]
    )
    schema = StructType().add("headers", ArrayType(header, False))
    assert projection(schema) == ("headers",)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (StructType().add("amount", IntegerType()), "a topic has no column amount: it has key, "),
        (StructType().add("value", StringType()), "the column value is binary, not string"),
        (StructType().add("offset", IntegerType()), "the column offset is bigint, not int"),
        (StructType().add("key", "binary").add("key", "binary"), "names a column twice"),
    ],
)
def test_a_schema_that_no_topic_has_is_refused(schema: StructType, why: str) -> None:
    with pytest.raises(BadSchema, match=why):
        projection(schema)
