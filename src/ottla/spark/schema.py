"""The columns of a topic, as in Spark's Kafka connector: all, or the requested ones."""

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ottla.errors import OttlaError

if TYPE_CHECKING:
    import pyarrow

HEADERS = "headers"
TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


class BadSchema(OttlaError, ValueError):
    """The schema does not fit a topic. The message names the column and the remedy."""


def topic_schema(*, include_headers: bool) -> StructType:
    """The default schema of a topic."""
    return StructType(
        [
            StructField(name, of_type)
            for name, of_type in TYPES.items()
            if include_headers or name != HEADERS
        ]
    )


def projection(schema: StructType) -> tuple[str, ...]:
    """The names of the requested columns, in the order of the schema. BadSchema."""
    for field in schema.fields:
        expected = TYPES.get(field.name)
        if expected is None:
            raise BadSchema(
                f"a topic has no column {field.name}: it has {', '.join(TYPES)}. Decode the fields "
                "of value after reading, as with from_json"
            )
        if _nullable(field.dataType) != expected:
            raise BadSchema(
                f"the column {field.name} is {expected.simpleString()}, not "
                f"{field.dataType.simpleString()}: cast it after reading"
            )
    names = tuple(field.name for field in schema.fields)
    if len(set(names)) < len(names):
        raise BadSchema("the schema names a column twice")
    return names


def batch_schema(schema: StructType) -> "pyarrow.Schema":
    """The Arrow schema of each batch. Spark checks the first batch only, and crashes on others
    that differ."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _nullable(of_type: DataType) -> DataType:
    """The type with all fields nullable: a schema may declare fields that are never null."""
    if isinstance(of_type, ArrayType):
        return ArrayType(_nullable(of_type.elementType))
    if isinstance(of_type, StructType):
        return StructType(
            [StructField(each.name, _nullable(each.dataType)) for each in of_type.fields]
        )
    return of_type
