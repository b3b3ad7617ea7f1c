import json
from types import ModuleType

import pytest

from tests.support.paths import VECTORS

VARINTS = json.loads((VECTORS / "misc/varints.json").read_text())
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def test_a_record_is_encoded_field_by_field(build: ModuleType) -> None:
    encoded = build.encode_rows([(7, 100, b"k", b"vw", (("h", b""), ("h", None)))], 5, 101)
    assert bytes(encoded.body) == bytes(
        [
            30,  # 15 bytes
            0,  # attributes
            1,  # timestamp delta -1
            4,  # offset delta 2
            *(2, ord("k")),
            *(4, ord("v"), ord("w")),
            4,  # two headers
            *(2, ord("h"), 0),
            *(2, ord("h"), 1),
        ]
    )
    assert encoded.row_count == 1
    assert encoded.last_offset_delta == 2
    assert encoded.max_timestamp == 100


def test_null_and_empty_fields_differ(build: ModuleType) -> None:
    null = build.encode_rows([(0, 0, None, None, ())], 0, 0).body
    empty = build.encode_rows([(0, 0, b"", b"", ())], 0, 0).body
    assert bytes(null) == bytes([12, 0, 0, 0, 1, 1, 0])
    assert bytes(empty) == bytes([12, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("case", VARINTS, ids=lambda case: str(case["value"]))
def test_varints_are_kafkas(build: ModuleType, case: dict[str, object]) -> None:
    value = case["value"]
    assert isinstance(value, int)
    encoded = build.encode_rows([(0, value, None, None, ())], 0, 0)
    expected = bytes.fromhex(str(case["varlong"]))
    assert bytes(encoded.body[2 : 2 + len(expected)]) == expected
    assert encoded.body[0] == 2 * (5 + len(expected))


def test_the_largest_timestamp_is_found_at_any_position(build: ModuleType) -> None:
    rows = [(offset, time, None, None, ()) for offset, time in enumerate([-5, -2, -9])]
    assert build.encode_rows(rows, 0, -5).max_timestamp == -2


def test_no_rows_make_no_bytes(build: ModuleType) -> None:
    assert build.encode_rows([], 0, 0) == (b"", 0, -1, -1)


@pytest.mark.parametrize(
    ("rows", "base_timestamp", "complaint"),
    [
        ([(4, 0, None, None, ())], 0, "offset delta -1"),
        ([(5 + 2**31, 0, None, None, ())], 0, "offset delta 2147483648"),
        ([(6, 0, None, None, ()), (6, 0, None, None, ())], 0, "row 1: offset delta 1 after 1"),
        ([(5, INT64_MAX, None, None, ())], -1, "timestamp delta"),
        ([(5, INT64_MIN, None, None, ())], 1, "timestamp delta"),
    ],
)
def test_values_that_do_not_fit_the_format_are_refused(
    build: ModuleType, rows: list[tuple[object, ...]], base_timestamp: int, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        build.encode_rows(rows, 5, base_timestamp)


def test_the_widest_deltas_fit(build: ModuleType) -> None:
    encoded = build.encode_rows([(2**31 - 1, INT64_MIN, None, None, ())], 0, 0)
    assert encoded.last_offset_delta == 2**31 - 1
    assert encoded.body[0] == 2 * (1 + 10 + 5 + 1 + 1 + 1)
