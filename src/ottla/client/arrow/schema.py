"""The columns of a topic, with the names and types of Spark's own Kafka connector."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.native import columns as native

if TYPE_CHECKING:
    import pyarrow as pa

# Each column with the field of a record that it needs; topic and partition need none.
_READ = {
    "key": native.KEY,
    "value": native.VALUE,
    "topic": 0,
    "partition": 0,
    "offset": native.OFFSET,
    "timestamp": native.TIMESTAMP,
    "timestampType": native.TIMESTAMP_TYPE,
    "headers": native.HEADERS,
}
COLUMNS = tuple(_READ)


def import_pyarrow() -> Any:
    """pyarrow, an optional dependency. ImportError says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("Arrow needs pyarrow: pip install 'ottla[arrow]'") from None
    return pyarrow


def checked_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns; None means all. ValueError for an unknown column."""
    if columns is None:
        return COLUMNS
    if isinstance(columns, str):
        raise TypeError(f"columns are a list of names, not {columns!r}")
    for name in columns:
        if name not in _READ:
            raise ValueError(f"no column {name!r}: there are {', '.join(COLUMNS)}")
    if len(set(columns)) < len(columns):
        raise ValueError("a column is named twice")
    return tuple(columns)


def wanted(columns: Sequence[str]) -> int:
    """The fields of records that the columns need, as the bits of `native.columns`."""
    return sum(_READ[name] for name in columns)


def arrow_schema(columns: Sequence[str] = COLUMNS) -> "pa.Schema":
    """The schema of these columns, in their order. All are nullable, as Spark expects."""
    pa = import_pyarrow()
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "headers": pa.list_(
            pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
        ),
    }
    return pa.schema([(name, types[name]) for name in columns])
