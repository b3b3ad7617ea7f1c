"""Record batches from columns: the exact schema that Spark checks, and rows that Arrow accepts."""

import subprocess
import sys

import pyarrow as pa
import pytest

from ottla.client.arrow.columns import ColumnLimits, fetched_columns
from ottla.client.arrow.record_batches import RecordBatchMaker
from ottla.client.arrow.schema import COLUMNS, arrow_schema, checked_columns, import_pyarrow, wanted
from ottla.client.reading.fetch import Fetched
from ottla.client.reading.visible_records import whole_batches
from ottla.native.columns import Columns
from ottla.protocol.batch import Record, build
from ottla.protocol.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 3)


def batch_of(records: list[Record], names: tuple[str, ...] = COLUMNS) -> pa.RecordBatch:
    fetched = Fetched(memoryview(bytes(build(records))), ())
    batches = list(whole_batches(fetched.records))
    names_wanted, limits = wanted(names), ColumnLimits()
    [columns] = fetched_columns(fetched, batches, 0, 2**40, names_wanted, limits, pytest.fail)
    return RecordBatchMaker(names).make(columns, ORDERS)


def test_a_batch_has_the_connectors_schema_and_the_records_values() -> None:
    batch = batch_of(
        [
            Record(0, 5, b"k", None, (("a", b"1"), ("a", None))),
            Record(1, 6, None, b"v", ()),
        ]
    )
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema(), check_metadata=True)
    plain = batch.set_column(5, "timestamp", batch["timestamp"].cast(pa.int64()))
    shared = {"topic": "orders", "partition": 3, "timestampType": 0}
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    first = {"key": b"k", "value": None, "offset": 0, "timestamp": 5000, "headers": headers}
    second = {"key": None, "value": b"v", "offset": 1, "timestamp": 6000, "headers": None}
    assert plain.to_pylist() == [shared | first, shared | second]


def test_every_field_may_be_null_and_a_list_has_elements() -> None:
    schema = arrow_schema()
    assert all(field.nullable for field in schema)
    assert str(schema.field("timestamp").type) == "timestamp[us, tz=UTC]"
    headers = schema.field("headers").type
    assert str(headers) == "list<element: struct<key: string, value: binary>>"


def test_columns_have_the_requested_order() -> None:
    batch = batch_of([Record(0, 1, b"k", b"v")], ("offset", "topic", "key"))
    assert batch.to_pylist() == [{"offset": 0, "topic": "orders", "key": b"k"}]


def test_a_batch_without_columns_has_a_row_count() -> None:
    batch = batch_of([Record(0, 1, b"k", b"v"), Record(1, 1, b"k", b"v")], ())
    assert (batch.num_columns, batch.num_rows) == (0, 2)


def test_one_maker_serves_batches_of_any_length_and_partition() -> None:
    maker = RecordBatchMaker(("topic", "partition"))
    for partition in (ORDERS, TopicPartition("orders", 4), TopicPartition("other", 4)):
        for row_count in (3, 1, 5):
            columns = Columns(row_count, None, None, None, None, None, None)
            expected = [{"topic": partition.topic, "partition": partition.partition}] * row_count
            assert maker.make(columns, partition).to_pylist() == expected


def test_invalid_utf8_in_a_header_name_is_replaced_as_in_kafkas_client() -> None:
    bad = b"a\xff".decode("utf-8", "surrogateescape")
    # Whole only where the two are taken together.
    halves = [half.decode("utf-8", "surrogateescape") for half in (b"\xc3", b"\xa4")]
    headers = ((bad, b"1"), ("good", b"2"), (halves[0], b""), (halves[1], b""))
    batch = batch_of([Record(0, 1, None, None, headers)])
    batch.validate(full=True)
    [names] = batch.column("headers").to_pylist()
    assert [each["key"] for each in names] == ["a\ufffd", "good", "\ufffd", "\ufffd"]


@pytest.mark.parametrize("columns", [["key", "nothing"], ["key", "key"]])
def test_unknown_columns_are_refused(columns: list[str]) -> None:
    with pytest.raises(ValueError, match=r"no column|named twice"):
        checked_columns(columns)
    with pytest.raises(TypeError, match="list of names"):
        checked_columns("key")


def test_without_pyarrow_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'ottla\[arrow\]'"):
        import_pyarrow()


def test_import_ottla_is_lazy() -> None:
    program = """\
import sys, ottla
assert not {"pyarrow", "ottla.client", "asyncio"} & set(sys.modules), "not lazy"
assert "read_topic" in dir(ottla)
assert callable(ottla.read_topic)
assert "pyarrow" not in sys.modules, "not lazy"
try:
    ottla.nothing
except AttributeError:
    print("ok")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "ok\n", done.stderr
