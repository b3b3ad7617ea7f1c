"""Records as Arrow columns: which are taken, left for the next batch, or refused."""

from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

from tests.support.native_modules import KINDS, load
from tests.unit.native.test_scan import MALFORMED

Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
ALL = 63
END = 2**62
ROWS: list[Row] = [
    (10, 1000, b"key", b"value", ()),
    (12, 999, None, b"", (("name", b"x"), ("", None))),
    (13, -1, b"", None, (("other", b""),)),
]


@pytest.fixture(params=KINDS)
def columns(request: pytest.FixtureRequest) -> ModuleType:
    return load("columns", request.param)


def encode(rows: list[Row], base_offset: int = 0) -> bytes:
    return bytes(load("build", "interpreted").encode_rows(rows, base_offset, 0).body)


def binary(column: Any) -> list[bytes | None]:
    """A column of bytes as Python values."""
    offsets, content = list(column.offsets), bytes(column.content)
    cells: list[bytes | None] = []
    for row, (start, end) in enumerate(pairwise(offsets)):
        is_valid = column.validity is None or column.validity[row // 8] >> row % 8 & 1
        cells.append(content[start:end] if is_valid else None)
    assert cells.count(None) == column.null_count
    return cells


def rows_of(found: Any) -> list[Row]:
    """Columns, converted back to rows."""
    names = [
        (name or b"").decode("utf-8", "surrogateescape") for name in binary(found.headers.names)
    ]
    headers = list(zip(names, binary(found.headers.values), strict=True))
    ends = list(found.headers.offsets)
    lists = [tuple(headers[a:b]) for a, b in pairwise(ends)]
    times = [time // 1000 for time in found.timestamp]
    numbers = zip(found.offset, times, strict=True)
    cells = zip(binary(found.key), binary(found.value), lists, strict=True)
    return [(*two, *three) for two, three in zip(numbers, cells, strict=True)]  # type: ignore[misc]


def taken(
    columns: ModuleType, body: bytes, count: int, *, capacity: int = 100, bytes_max: int = 1 << 20
) -> Any:
    rows = columns.Rows(ALL, capacity, bytes_max, 0, END)
    assert rows.take(body, 0, len(body), count, 0, 0, False) == (len(body), 0)
    return rows.columns()


def test_rows_survive_a_round_trip(columns: ModuleType) -> None:
    found = taken(columns, encode(ROWS), 3)
    assert rows_of(found) == ROWS
    assert found.row_count == 3
    assert list(found.timestamp_type) == [0, 0, 0]


def test_a_record_without_headers_has_null_and_one_with_some_has_a_list(
    columns: ModuleType,
) -> None:
    found = taken(columns, encode(ROWS), 3)
    assert found.headers.null_count == 1
    assert found.headers.validity[0] & 0b111 == 0b110
    assert list(found.headers.offsets) == [0, 0, 2, 3]


def test_nothing_null_needs_no_bitmap(columns: ModuleType) -> None:
    found = taken(columns, encode([(0, 0, b"k", b"v", (("h", b""),))]), 1)
    assert (found.key.validity, found.value.validity, found.headers.validity) == (None, None, None)


def test_only_offsets_of_the_range_are_taken(columns: ModuleType) -> None:
    body = encode([(offset, 0, None, b"%d" % offset, ()) for offset in range(10)])
    rows = columns.Rows(ALL, 100, 1 << 20, 3, 6)
    assert rows.take(body, 0, len(body), 10, 0, 0, False) == (len(body), 0)
    assert rows.row_count() == 3
    assert list(rows.columns().offset) == [3, 4, 5]


def test_rows_of_several_bodies_follow_one_another(columns: ModuleType) -> None:
    first, second = encode(ROWS[:2]), encode(ROWS[2:])
    rows = columns.Rows(ALL, 100, 1 << 20, 0, END)
    rows.take(first, 0, len(first), 2, 0, 0, False)
    rows.take(second, 0, len(second), 1, 0, 0, False)
    assert rows_of(rows.columns()) == ROWS


def test_batches_of_one_buffer_are_taken_from_their_positions(columns: ModuleType) -> None:
    first, second = encode(ROWS[:1]), encode(ROWS[1:])
    body = b"before" + first + b"between" + second + b"behind"
    rows = columns.Rows(ALL, 100, 1 << 20, 0, END)
    rows.take(body, 6, 6 + len(first), 1, 0, 0, False)
    start = 6 + len(first) + 7
    rows.take(body, start, start + len(second), 2, 0, 0, False)
    assert rows_of(rows.columns()) == ROWS


@pytest.mark.parametrize(("capacity", "bytes_max"), [(1, 1 << 20), (100, 0), (2, 1 << 20)])
def test_records_without_room_are_left_for_the_next_batch(
    columns: ModuleType, capacity: int, bytes_max: int
) -> None:
    body, position, left = encode(ROWS), 0, 3
    seen: list[Row] = []
    while left:
        rows = columns.Rows(ALL, capacity, bytes_max, 0, END)
        position, left = rows.take(body, position, len(body), left, 0, 0, False)
        assert 0 < rows.row_count() <= capacity
        seen += rows_of(rows.columns())
    assert seen == ROWS


def test_a_batch_with_log_append_time_has_one_timestamp(columns: ModuleType) -> None:
    body = encode(ROWS)
    rows = columns.Rows(ALL, 100, 1 << 20, 0, END)
    rows.take(body, 0, len(body), 3, 0, 5000, True)
    found = rows.columns()
    assert list(found.timestamp) == [5_000_000] * 3
    assert list(found.timestamp_type) == [1, 1, 1]


@pytest.mark.parametrize("time_ms", [2**61, -(2**61)])
def test_a_timestamp_beyond_microseconds_is_clamped(columns: ModuleType, time_ms: int) -> None:
    found = taken(columns, encode([(0, time_ms, None, None, ())]), 1)
    assert list(found.timestamp) == [2**63 - 1 if time_ms > 0 else -(2**63)]


def test_columns_that_are_not_requested_are_not_built(columns: ModuleType) -> None:
    body = encode(ROWS)
    rows = columns.Rows(columns.VALUE, 100, 1 << 20, 0, END)
    rows.take(body, 0, len(body), 3, 0, 0, False)
    found = rows.columns()
    assert binary(found.value) == [b"value", b"", None]
    assert found._replace(value=None) == (3, None, None, None, None, None, None)


def test_an_empty_batch_gives_no_rows(columns: ModuleType) -> None:
    assert taken(columns, b"", 0).row_count == 0


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_records_are_refused_and_the_byte_is_named(
    columns: ModuleType, body: bytes
) -> None:
    for wanted in (0, ALL):
        rows = columns.Rows(wanted, 100, 1 << 20, 0, END)
        with pytest.raises(ValueError, match=r"^byte \d+: "):
            rows.take(body, 0, len(body), 1, 0, 0, False)


@pytest.mark.parametrize(
    ("base_offset", "base_timestamp"), [(2**63 - 1, 0), (0, 2**63 - 1)], ids=["offset", "time"]
)
def test_deltas_past_64_bits_are_refused(
    columns: ModuleType, base_offset: int, base_timestamp: int
) -> None:
    body = encode([(1, 1, None, None, ())])
    rows = columns.Rows(ALL, 100, 1 << 20, 0, END)
    with pytest.raises(ValueError, match="64 bits"):
        rows.take(body, 0, len(body), 1, base_offset, base_timestamp, False)


@pytest.mark.parametrize(
    ("position", "end", "count"), [(-1, 1, 1), (2, 1, 1), (0, 9, 1), (0, 1, -1)]
)
def test_positions_outside_the_body_are_refused(
    columns: ModuleType, position: int, end: int, count: int
) -> None:
    rows = columns.Rows(ALL, 100, 1 << 20, 0, END)
    with pytest.raises(ValueError, match="byte"):
        rows.take(b"body", position, end, count, 0, 0, False)


@pytest.mark.parametrize(("capacity", "bytes_max"), [(0, 1), (1, -1), (1, 2**31)])
def test_a_capacity_beyond_arrows_limit_is_refused(
    columns: ModuleType, capacity: int, bytes_max: int
) -> None:
    with pytest.raises(ValueError, match="rows"):
        columns.Rows(ALL, capacity, bytes_max, 0, END)
