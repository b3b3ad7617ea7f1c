import json
from pathlib import Path
from types import ModuleType

import pytest

VARINTS = json.loads((Path(__file__).parents[2] / "vectors/misc/varints.json").read_text())
INT64_MAX = 2**63 - 1


def record(*fields: int) -> bytes:
    """A record of these bytes, behind the length that they have."""
    return bytes([2 * len(fields), *fields])


def rows(scan: ModuleType, body: bytes, count: int = 1) -> list[tuple[object, ...]]:
    found, end = scan.read_rows(body, 0, count, 0, 0, False)
    scan.check_end(end, len(body))
    return list(found)


EMPTY = record(0, 0, 0, 1, 1, 0)

MALFORMED = {
    "nothing": b"",
    "a length cut short": b"\x80",
    "a length of more than five bytes": b"\x80\x80\x80\x80\x80\x00",
    "a length of more than 32 bits": b"\xff\xff\xff\xff\x1f" + EMPTY,
    "a negative length": b"\x01",
    "a length too small for a record": record(0, 0, 0, 1, 1),
    "a length past the end": EMPTY[:-1],
    "a byte too many": record(0, 0, 0, 1, 1, 0, 0),
    "a key past the record's end": record(0, 0, 0, 8, 1, 0) + EMPTY,
    "a key of -2": record(0, 0, 0, 3, 1, 0),
    "a value past the record's end": record(0, 0, 0, 1, 4, 0) + EMPTY,
    "a value of -2": record(0, 0, 0, 1, 3, 0),
    "a negative header count": record(0, 0, 0, 1, 1, 1),
    "fewer headers than counted": record(0, 0, 0, 1, 1, 2) + EMPTY,
    "a header without a name": record(0, 0, 0, 1, 1, 2, 1, 1),
    "a header's value past the record's end": record(0, 0, 0, 1, 1, 2, 0, 2) + EMPTY,
    "a negative offset delta": record(0, 0, 1, 1, 1, 0),
    "a timestamp delta of eleven bytes": record(0, *[0x80] * 10, 0, 0, 1, 1, 0),
    "a timestamp delta of 65 bits": record(0, *[0x80] * 9, 2, 0, 1, 1, 0),
    "a varint that crosses the record's end": record(0, 0, 0, 1, 1, 0x80) + EMPTY,
    "a second record": EMPTY + EMPTY,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_records_are_refused_and_the_byte_is_named(scan: ModuleType, body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^byte \d+: "):
        rows(scan, body)
    with pytest.raises(ValueError, match=r"^byte \d+: "):
        scan.first_keyless(body, 1)


@pytest.mark.parametrize("case", VARINTS, ids=lambda case: str(case["value"]))
def test_varints_are_kafkas(scan: ModuleType, case: dict[str, object]) -> None:
    body = record(0, *bytes.fromhex(str(case["varlong"])), 0, 1, 1, 0)
    assert rows(scan, body) == [(0, case["value"], None, None, ())]


def test_a_varint_may_be_longer_than_it_needs_to_be(scan: ModuleType) -> None:
    body = record(0, 0x82, 0x00, 0x80, 0x00, 1, 1, 0)
    assert rows(scan, body) == [(0, 1, None, None, ())]


def test_rows_come_in_steps(scan: ModuleType) -> None:
    body = b"".join(record(0, 2 * index, 2 * index, 1, 1, 0) for index in range(10))
    first, middle = scan.read_rows(body, 0, 4, 100, 1000, False)
    second, end = scan.read_rows(body, middle, 6, 100, 1000, False)
    assert [row[:2] for row in first + second] == [(100 + n, 1000 + n) for n in range(10)]
    assert end == len(body)


def test_stamped_rows_all_have_the_batchs_time(scan: ModuleType) -> None:
    body = record(0, 2, 0, 1, 1, 0) + record(0, 4, 2, 1, 1, 0)
    found, _ = scan.read_rows(body, 0, 2, 0, 77, True)
    assert [row[1] for row in found] == [77, 77]


def test_keys_values_and_headers_keep_null_and_empty_apart(scan: ModuleType) -> None:
    body = record(0, 0, 0, 0, 2, 0x76, 6, 0, 1, 0, 0, 2, 0x68, 2, 0x78)
    headers = (("", None), ("", b""), ("h", b"x"))
    assert rows(scan, body) == [(0, 0, b"", b"v", headers)]


def test_a_header_name_that_is_no_utf8_survives(scan: ModuleType) -> None:
    (row,) = rows(scan, record(0, 0, 0, 1, 1, 2, 2, 0xFF, 1))
    ((name, _),) = row[4]  # type: ignore[misc]
    assert name.encode("utf-8", "surrogateescape") == b"\xff"


@pytest.mark.parametrize(("base_offset", "base_timestamp"), [(INT64_MAX, 0), (0, INT64_MAX)])
def test_sums_of_more_than_64_bits_are_refused(
    scan: ModuleType, base_offset: int, base_timestamp: int
) -> None:
    with pytest.raises(ValueError, match="pass 64 bits"):
        scan.read_rows(record(0, 2, 2, 1, 1, 0), 0, 1, base_offset, base_timestamp, False)


def test_a_time_before_the_first_that_64_bits_hold_is_refused(scan: ModuleType) -> None:
    with pytest.raises(ValueError, match="pass 64 bits"):
        scan.read_rows(record(0, 1, 0, 1, 1, 0), 0, 1, 0, -(2**63), False)


def test_the_first_record_without_a_key_is_found(scan: ModuleType) -> None:
    keyed = [record(0, 0, 2 * index, 0, 1, 0) for index in range(3)]
    keyless = [record(0, 0, 2 * index, 1, 1, 0) for index in range(3)]
    assert scan.first_keyless(b"".join(keyed), 3) == -1
    assert scan.first_keyless(keyed[0] + keyless[1] + keyless[2], 3) == 1
    assert scan.first_keyless(memoryview(b"".join(keyless)), 3) == 0


def test_records_behind_the_first_keyless_one_are_checked_too(scan: ModuleType) -> None:
    with pytest.raises(ValueError, match="byte 7"):
        scan.first_keyless(EMPTY + b"\x01", 2)


def test_a_producer_numbers_its_records_from_zero(scan: ModuleType) -> None:
    with pytest.raises(ValueError, match="offset delta 2 in record 1"):
        scan.first_keyless(EMPTY + record(0, 0, 4, 1, 1, 0), 2)


def test_a_count_beyond_the_bytes_costs_nothing(scan: ModuleType) -> None:
    with pytest.raises(ValueError, match="byte 7"):
        scan.first_keyless(EMPTY, 2**31 - 1)
    with pytest.raises(ValueError, match="byte 7"):
        scan.read_rows(EMPTY, 0, 2**31 - 1, 0, 0, False)
