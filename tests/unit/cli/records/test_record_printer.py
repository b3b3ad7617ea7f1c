"""Records on standard output in every format."""

import io
import json

import pytest

from ottla.cli.records.commands import RecordFormat
from ottla.cli.records.record_printer import printer
from ottla.protocol.batch import Record
from ottla.protocol.topic_partition import TopicPartition

PARTITION = TopicPartition("orders", 3)
RECORDS = [
    Record(7, 1_700, b"k", b"v", (("h", b"\xff"),)),
    Record(8, 1_701, None, None, ()),
]


def printed(format_: RecordFormat, separator: str = "\t") -> bytes:
    stream = io.BytesIO()
    printer(format_, separator, stream)(PARTITION, RECORDS)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("format_", "expected"),
    [(RecordFormat.VALUE, b"v\n\n"), (RecordFormat.KEY_VALUE, b"k: v\n: \n")],
)
def test_a_line_per_record_in_which_null_is_empty(format_: RecordFormat, expected: bytes) -> None:
    assert printed(format_, ": ") == expected


def test_json_has_all_fields_and_null() -> None:
    first, second = map(json.loads, printed(RecordFormat.JSONL).splitlines())
    assert first == {
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp": 1_700,
        "key": "k",
        "value": "v",
        "headers": [["h", {"base64": "/w=="}]],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, [])
