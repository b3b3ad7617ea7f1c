"""The columns of a topic: those of Spark's Kafka connector, all of them or the ones asked for."""

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
    """A schema that a topic does not have. The message says which column, and what to do."""


def topic_schema(*, include_headers: bool) -> StructType:
    """What a topic has if nobody asks for less."""
    return StructType(
        [
            StructField(name, of_type)
            for name, of_type in TYPES.items()
            if include_headers or name != HEADERS
        ]
    )


def projection(schema: StructType) -> tuple[str, ...]:
    """The names of the columns asked for, in that order. BadSchema."""
    for field in schema.fields:
        expected = TYPES.get(field.name)
        if expected is None:
            raise BadSchema(
                f"a topic has no column {field.name}: it has {', '.join(TYPES)}. What is inside of "
                "value is decoded from it, as with from_json"
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


def arrow_form(schema: StructType) -> "pyarrow.Schema":
    """What Spark expects of each batch: it checks the first, and crashes on others that differ."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _nullable(of_type: DataType) -> DataType:
    """The type without what it says of nulls: a schema may promise more than the source does."""
    if isinstance(of_type, ArrayType):
        return ArrayType(_nullable(of_type.elementType))
    if isinstance(of_type, StructType):
        return StructType(
            [StructField(each.name, _nullable(each.dataType)) for each in of_type.fields]
        )
    return of_type
