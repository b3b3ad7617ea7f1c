"""Converts columns in memory to Arrow record batches without copies."""

from typing import TYPE_CHECKING, Any

from ottla.client.arrow.schema import arrow_schema, import_pyarrow
from ottla.native.columns import BinaryColumn, Columns, HeaderColumn
from ottla.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class RecordBatchMaker:
    """Makes the record batches of one schema."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._pa = import_pyarrow()
        self._names = names
        self.schema = arrow_schema(names)
        self._types = {field.name: field.type for field in self.schema}
        # The last value of each constant column, and the longest array of it.
        self._repeats: dict[str, tuple[object, Any]] = {}

    def make(self, columns: Columns, partition: TopicPartition) -> "pa.RecordBatch":
        """The record batch of a partition's columns."""
        if not self._names:
            return self._without_columns(columns.row_count)
        arrays = [self._array(name, columns, partition) for name in self._names]
        return self._pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _without_columns(self, row_count: int) -> "pa.RecordBatch":
        """Rows without columns, for queries that only count."""
        rows = self._pa.Array.from_buffers(self._pa.struct([]), row_count, [None])
        return self._pa.RecordBatch.from_struct_array(rows)

    def _array(self, name: str, columns: Columns, partition: TopicPartition) -> Any:
        match name:
            case "key":
                return self._binary(self._types[name], columns.key)
            case "value":
                return self._binary(self._types[name], columns.value)
            case "headers":
                return self._headers(columns.headers)
            case "topic":
                return self._repeated(name, partition.topic, columns.row_count)
            case "partition":
                return self._repeated(name, partition.partition, columns.row_count)
            case "offset":
                return self._numbers(name, columns.offset, columns.row_count)
            case "timestamp":
                return self._numbers(name, columns.timestamp, columns.row_count)
            case _:
                return self._numbers(name, columns.timestamp_type, columns.row_count)

    def _repeated(self, name: str, value: object, row_count: int) -> Any:
        """The value in every row: a slice of the last array, if that is long enough."""
        last, array = self._repeats.get(name, (None, ()))
        if last != value or len(array) < row_count:
            array = self._pa.repeat(self._pa.scalar(value, self._types[name]), row_count)
            self._repeats[name] = (value, array)
        return array.slice(0, row_count)

    def _numbers(self, name: str, numbers: memoryview | None, row_count: int) -> Any:
        buffers = [None, self._pa.py_buffer(numbers)]
        return self._pa.Array.from_buffers(self._types[name], row_count, buffers, 0)

    def _binary(self, kind: Any, column: BinaryColumn | None) -> Any:
        if column is None:
            raise RuntimeError("a column is to be made of what was not read")
        return self._pa.Array.from_buffers(
            kind,
            len(column.offsets) - 1,
            [self._validity(column), *map(self._pa.py_buffer, (column.offsets, column.content))],
            column.null_count,
        )

    def _headers(self, column: HeaderColumn | None) -> Any:
        if column is None:
            raise RuntimeError("headers are to be made of what was not read")
        kind = self._types["headers"]
        struct = kind.value_type
        names = self._texts(column.names)
        values = self._binary(struct.field("value").type, column.values)
        pairs = self._pa.StructArray.from_arrays([names, values], fields=list(struct))
        return self._pa.Array.from_buffers(
            kind,
            len(column.offsets) - 1,
            [self._validity(column), self._pa.py_buffer(column.offsets)],
            column.null_count,
            children=[pairs],
        )

    def _texts(self, column: BinaryColumn) -> Any:
        """Names as text. Invalid UTF-8 is replaced, as in Kafka's own client."""
        texts = self._binary(self._pa.string(), column)
        try:
            texts.validate(full=True)
        except self._pa.ArrowInvalid:
            raw = self._binary(self._pa.binary(), column).to_pylist()
            texts = self._pa.array([name.decode("utf-8", "replace") for name in raw])
        return texts

    def _validity(self, column: BinaryColumn | HeaderColumn) -> Any:
        return None if column.validity is None else self._pa.py_buffer(column.validity)
