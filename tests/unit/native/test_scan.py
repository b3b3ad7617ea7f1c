import json
from types import ModuleType

import pytest

from tests.support.paths import VECTORS

VARINTS = json.loads((VECTORS / "misc/varints.json").read_text())
INT64_MAX = 2**63 - 1


def record(*fields: int) -> bytes:
    """A record of these bytes, preceded by their length."""
    return bytes([2 * len(fields), *fields])


def rows(scan: ModuleType, body: bytes, count: int = 1) -> list[tuple[object, ...]]:
    found, end = scan.read_rows(body, 0, count, 0, 0, False)
    scan.check_end(end, len(body))
    return list(found)


def survey(scan: ModuleType, body: bytes | memoryview, count: int) -> tuple[int, int, int]:
    """The latest and earliest timestamp, and the number of records without a key."""
    end, latest, earliest, keyless = scan.survey(body, 0, 0, count, 0)
    scan.check_end(end, len(body))
    return latest, earliest, keyless


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
        survey(scan, body, 1)


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


def test_with_log_append_time_all_rows_have_the_batchs_timestamp(scan: ModuleType) -> None:
    body = record(0, 2, 0, 1, 1, 0) + record(0, 4, 2, 1, 1, 0)
    found, _ = scan.read_rows(body, 0, 2, 0, 77, True)
    assert [row[1] for row in found] == [77, 77]


def test_keys_values_and_headers_keep_null_and_empty_apart(scan: ModuleType) -> None:
    body = record(0, 0, 0, 0, 2, 0x76, 6, 0, 1, 0, 0, 2, 0x68, 2, 0x78)
    headers = (("", None), ("", b""), ("h", b"x"))
    assert rows(scan, body) == [(0, 0, b"", b"v", headers)]


def test_a_header_name_that_is_not_utf8_survives(scan: ModuleType) -> None:
    (row,) = rows(scan, record(0, 0, 0, 1, 1, 2, 2, 0xFF, 1))
    ((name, _),) = row[4]  # type: ignore[misc]
    assert name.encode("utf-8", "surrogateescape") == b"\xff"


@pytest.mark.parametrize(("base_offset", "base_timestamp"), [(INT64_MAX, 0), (0, INT64_MAX)])
def test_sums_of_more_than_64_bits_are_refused(
    scan: ModuleType, base_offset: int, base_timestamp: int
) -> None:
    with pytest.raises(ValueError, match="past 64 bits"):
        scan.read_rows(record(0, 2, 2, 1, 1, 0), 0, 1, base_offset, base_timestamp, False)


def test_a_timestamp_below_64_bits_is_refused(scan: ModuleType) -> None:
    with pytest.raises(ValueError, match="past 64 bits"):
        scan.read_rows(record(0, 1, 0, 1, 1, 0), 0, 1, 0, -(2**63), False)


def test_records_without_keys_are_counted_and_listed(scan: ModuleType) -> None:
    keyed = [record(0, 0, 2 * index, 0, 1, 0) for index in range(3)]
    keyless = [record(0, 0, 2 * index, 1, 1, 0) for index in range(3)]
    assert survey(scan, b"".join(keyed), 3)[2] == 0
    assert survey(scan, memoryview(b"".join(keyless)), 3)[2] == 3
    body = keyed[0] + keyless[1] + keyless[2]
    assert survey(scan, body, 3)[2] == 2
    end, flawed = scan.flawed(body, 0, 0, 3, 0, True, 0, 0)
    assert (end, flawed) == (len(body), [(1, False, 0), (2, False, 0)])
    assert scan.flawed(body, 0, 0, 3, 0, False, 0, 0) == (len(body), [])


def test_timestamps_are_surveyed_and_those_out_of_range_listed(scan: ModuleType) -> None:
    # Zigzag: 0, 5, -3 relative to a base of 10.
    body = b"".join(record(0, delta, 2 * n, 0, 1, 0) for n, delta in enumerate((0, 10, 5)))
    assert scan.survey(body, 0, 0, 3, 10) == (len(body), 15, 7, 0)
    assert scan.flawed(body, 0, 0, 3, 10, False, 8, 14)[1] == [(1, True, 15), (2, True, 7)]
    assert scan.survey(body, 0, 0, 3, -20) == (len(body), -1, -23, 0)


def test_a_record_without_a_timestamp_is_never_out_of_range(scan: ModuleType) -> None:
    assert scan.survey(EMPTY, 0, 0, 1, -1) == (len(EMPTY), -1, INT64_MAX, 1)
    assert scan.flawed(EMPTY, 0, 0, 1, -1, False, 5, 6)[1] == []


def test_a_survey_continues_where_another_ended(scan: ModuleType) -> None:
    body = b"".join(record(0, 2 * n, 2 * n, 0, 1, 0) for n in range(4))
    end, latest, *_ = scan.survey(body, 0, 0, 2, 0)
    assert latest == 1
    assert scan.survey(body, end, 2, 4, 0) == (len(body), 3, 2, 0)


def test_the_first_record_at_a_timestamp_and_an_offset_is_found(scan: ModuleType) -> None:
    body = b"".join(record(0, 2 * delta, 2 * n, 0, 1, 0) for n, delta in enumerate((0, 9, 4, 9)))

    def first(time: int, offset: int, stamped: bool = False) -> tuple[int, int]:
        return tuple(scan.first_at(body, 0, 4, 100, 50, stamped, time, offset)[1:])

    assert first(0, 0) == (100, 50)
    assert first(51, 0) == (101, 59)
    assert first(51, 102) == (102, 54)
    assert first(55, 102) == (103, 59)
    assert first(60, 0) == (-1, -1)
    assert first(50, 103, stamped=True) == (103, 50)
    assert scan.latest_from(body, 0, 4, 100, 50, False, 102) == (len(body), 59)
    assert scan.latest_from(body, 0, 4, 100, 50, False, 104) == (len(body), -1)


def test_records_are_checked_up_to_the_last(scan: ModuleType) -> None:
    for function in (
        lambda body: survey(scan, body, 2),
        lambda body: scan.first_at(body, 0, 2, 0, 0, False, 9, 0),
        lambda body: scan.latest_from(body, 0, 2, 0, 0, False, 0),
    ):
        with pytest.raises(ValueError, match="byte 7"):
            function(EMPTY + b"\x01")


def test_a_producer_numbers_its_records_from_zero(scan: ModuleType) -> None:
    with pytest.raises(ValueError, match="byte 10: an offset delta that cannot be"):
        survey(scan, EMPTY + record(0, 0, 4, 1, 1, 0), 2)


def test_a_count_beyond_the_bytes_takes_no_time(scan: ModuleType) -> None:
    with pytest.raises(ValueError, match="byte 7"):
        survey(scan, EMPTY, 2**31 - 1)
    with pytest.raises(ValueError, match="byte 7"):
        scan.read_rows(EMPTY, 0, 2**31 - 1, 0, 0, False)
    with pytest.raises(ValueError, match="byte 11"):
        # Two billion headers are announced, and none is there.
        survey(scan, record(0, 0, 0, 1, 1, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F), 1)
