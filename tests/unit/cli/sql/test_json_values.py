"""Spark's values as JSON, and the messages that carry them."""

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import pytest
from pyspark.sql import Row
from pyspark.sql.types import VariantVal

from ottla.cli.sql.json_values import json_value
from ottla.cli.sql.worker_protocol import (
    Column,
    Done,
    Failed,
    Message,
    QueryJob,
    ResultColumns,
    Started,
    decode_line,
    encode_message,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**63, 2**63),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("grün", "grün"),
        ("grün".encode(), "grün"),
        (bytearray(b"\xff"), {"base64": "/w=="}),
        (Decimal("1.50"), "1.50"),
        (datetime.fromisoformat("2026-01-31T18:00"), "2026-01-31T18:00:00.000"),
        (datetime.fromisoformat("2026-01-31T18:00:00.000001"), "2026-01-31T18:00:00.000001"),
        (date(2026, 1, 31), "2026-01-31"),
        (time(18, 30), "18:30:00"),
        (timedelta(days=1), "1 day, 0:00:00"),
        (Row(a=1, b=Row(c=b"x")), {"a": 1, "b": {"c": "x"}}),
        ([Row(key="h", value=b"1")], [{"key": "h", "value": "1"}]),
        ({1: b"x", "b": None}, {"1": "x", "b": None}),
        (VariantVal.parseJson('{"a": [1, "b"]}'), {"a": [1, "b"]}),
    ],
)
def test_a_value_becomes_its_json_form(value: object, expected: object) -> None:
    assert json_value(value) == expected
    assert json.loads(json.dumps(json_value(value), allow_nan=False)) == expected


@pytest.mark.parametrize(
    "message",
    [
        Started(),
        ResultColumns([Column("key", False), Column("n", True)]),
        Done(3),
        Failed("why\nand where", is_query_error=True),
    ],
)
def test_a_message_survives_its_way(message: Message) -> None:
    heard = decode_line(encode_message(message).encode())
    assert heard == message
    assert type(heard) is type(message)


def test_a_row_is_no_message() -> None:
    assert decode_line(b'["a", {"Done": 1}]') == ["a", {"Done": 1}]


def test_an_order_survives_its_way() -> None:
    job = QueryJob(
        query="select 1",
        topics={"a.b": {"startingOffsets": "earliest"}},
        bootstrap_servers="localhost:9092",
        offsets=5,
        names=["key"],
        is_text=True,
        rows_max=None,
        conf={"spark.driver.memory": "4g"},
    )
    assert QueryJob.decode(job.encode()) == job
