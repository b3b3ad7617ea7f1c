"""The map of keys: right by a dictionary, within its bytes, closed to those who would collide."""

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native.build import copy_records
from ottla.native.keymap import GOES, SLOT_BYTES, STAYS, STAYS_AS_TOMBSTONE, KeyMap
from ottla.native.scan import KeyColumns, key_columns
from ottla.protocol.batch import Record, build, plain_records, records, repack
from ottla.protocol.batch import read_header as header_of

SECRET = bytes(range(16))
Rows = list[tuple[bytes | None, bytes | None]]


def batch_of(rows: Rows, base_offset: int = 0) -> bytearray:
    return build(
        [Record(base_offset + n, 1000 + n, key, value) for n, (key, value) in enumerate(rows)],
        base_offset=base_offset,
    )


def columns_of(batch: bytearray) -> tuple[bytes, KeyColumns]:
    body = bytes(plain_records(batch))
    return body, key_columns(body, header_of(batch).count)


def put(keys: KeyMap, rows: Rows, base_offset: int, start_offset: int = 0) -> bool:
    return keys.put(*columns_of(batch_of(rows)), base_offset, start_offset)


def judge(
    keys: KeyMap, rows: Rows, base_offset: int, *, drops_tombstones: bool = False
) -> list[int]:
    return list(keys.judge(*columns_of(batch_of(rows)), base_offset, drops_tombstones))


@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, "a3817f04ba25a8e66df67214c7550293"), (1, "da87c1d86b99af44347659119b22fc45")],
)
def test_the_hash_is_siphash_by_the_vectors_of_its_authors(length: int, expected: str) -> None:
    halves = KeyMap(SECRET, 1000).hash(bytes(range(length)))
    assert b"".join(half.to_bytes(8, "little") for half in halves).hex() == expected


def test_every_bit_of_key_and_secret_counts() -> None:
    plain = KeyMap(SECRET, 1000)
    keys = [bytes(length) for length in range(40)] + [bytes([n]) * 9 for n in range(1, 200)]
    assert len({plain.hash(key) for key in keys}) == len(keys)
    assert KeyMap(bytes(16), 1000).hash(b"key") != plain.hash(b"key")


def test_a_record_goes_when_a_later_one_has_its_key() -> None:
    keys = KeyMap(SECRET, 10_000)
    rows: Rows = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", None)]
    assert put(keys, rows, 100)
    assert (len(keys), keys.latest_offset) == (3, 103)
    assert judge(keys, rows, 100) == [GOES, STAYS, STAYS, STAYS_AS_TOMBSTONE]
    assert judge(keys, [(b"c", b"old"), (b"d", b"old")], 0) == [GOES, STAYS]


def test_a_tombstone_goes_when_its_time_is_over_and_what_it_hides_goes_anyway() -> None:
    keys = KeyMap(SECRET, 10_000)
    put(keys, [(b"a", b"1"), (b"a", None)], 0)
    assert judge(keys, [(b"a", b"1"), (b"a", None)], 0, drops_tombstones=True) == [GOES, GOES]


def test_records_without_a_key_go_and_what_is_not_known_yet_stays() -> None:
    keys = KeyMap(SECRET, 10_000)
    put(keys, [(b"a", b"1")], 0)
    keys.cover(4)
    assert judge(keys, [(None, b"x"), (b"a", None), (None, b"y")], 4) == [
        GOES,
        STAYS_AS_TOMBSTONE,
        STAYS,
    ]


def test_what_lies_before_the_start_is_not_put() -> None:
    keys = KeyMap(SECRET, 10_000)
    put(keys, [(b"a", b"1"), (b"b", b"2")], 10, start_offset=11)
    assert len(keys) == 1
    assert judge(keys, [(b"a", b"0"), (b"b", b"0")], 0) == [STAYS, GOES]


def test_a_full_map_says_so_and_knows_what_it_took() -> None:
    keys = KeyMap(SECRET, 10 * SLOT_BYTES, keys_expected=100)
    rows: Rows = [(b"%d" % number, b"v") for number in range(20)]
    assert not put(keys, rows, 50)
    assert (len(keys), keys.latest_offset) == (9, 58)
    assert keys.utilization == 1.0
    assert judge(keys, rows, 20)[:9] == [GOES] * 9
    assert put(keys, [(b"3", b"again")], 90), "a key that is known needs no room"


def test_it_grows_within_its_bytes_and_forgets_nothing() -> None:
    keys = KeyMap(SECRET, 300 * SLOT_BYTES)
    rows: Rows = [(b"%d" % number, b"v") for number in range(300)]
    assert not put(keys, rows, 1_000)
    # What it grew to and what it grew from fit together: two thirds of its bytes at most.
    assert 80 <= len(keys) <= 180
    known = len(keys)
    assert judge(keys, rows[:known], 0) == [GOES] * known


@pytest.mark.parametrize(("secret", "bytes_max"), [(b"short", 1000), (SECRET, 47)])
def test_a_map_that_cannot_be_is_refused(secret: bytes, bytes_max: int) -> None:
    with pytest.raises(ValueError):
        KeyMap(secret, bytes_max)


@settings(derandomize=True, deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.binary(max_size=20), st.none() | st.binary(max_size=3)),
            min_size=1,
            max_size=8,
        ),
        max_size=12,
    )
)
def test_it_keeps_what_a_dictionary_would_keep(batches: list[Rows]) -> None:
    keys = KeyMap(SECRET, 1 << 20)
    last: dict[bytes | None, int] = {}
    offset = 0
    for rows in batches:
        put(keys, rows, offset)
        last |= {key: offset + index for index, (key, _) in enumerate(rows)}
        offset += len(rows)
    offset = 0
    for rows in batches:
        kept = [last[key] == offset + index for index, (key, _) in enumerate(rows)]
        assert [bool(mark) for mark in judge(keys, rows, offset)] == kept
        offset += len(rows)


@settings(derandomize=True, deadline=None)
@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=9), st.integers(0, 2**40)), max_size=9),
    st.integers(0, 2**9 - 1),
    st.none() | st.integers(0, 2**41),
)
def test_what_is_copied_reads_as_it_did(
    rows: list[tuple[bytes | None, int]], mask: int, horizon_ms: int | None
) -> None:
    written = [
        Record(index, time_ms, key, b"v", (("h", None),))
        for index, (key, time_ms) in enumerate(rows)
    ]
    batch = build(written, last_offset_delta=len(rows))
    header = header_of(batch)
    stays = bytearray((mask >> index) & 1 for index in range(len(rows)))
    shift = 0 if horizon_ms is None else header.base_timestamp - horizon_ms
    copied = copy_records(*columns_of(batch), stays, shift)
    left = repack(
        header,
        copied.body,
        count=copied.row_count,
        max_timestamp=header.base_timestamp + copied.max_timestamp_delta,
        delete_horizon_ms=horizon_ms,
    )
    kept = [record for record, stay in zip(written, stays, strict=True) if stay]
    assert list(records(left)) == kept
    found = header_of(left)
    assert (found.last_offset_delta, found.count) == (len(rows), len(kept))
    if kept:
        assert found.max_timestamp == max(record.timestamp for record in kept)
        assert found.delete_horizon_ms == horizon_ms


@pytest.mark.parametrize(
    ("body", "count"),
    [(b"", 1), (b"\x00" * 20, 1), (b"\x0c\x00\x00\x00\x01\x01\x00x", 1), (b"", 2**31 - 1)],
)
def test_columns_of_what_is_no_record_are_refused(body: bytes, count: int) -> None:
    with pytest.raises(ValueError, match="byte"):
        key_columns(body, count)


def test_columns_say_where_everything_lies() -> None:
    batch = build([Record(0, 5, b"key", None), Record(3, 7, None, b"value")], last_offset_delta=3)
    body, columns = columns_of(batch)
    assert columns.offset_deltas == array("q", [0, 3])
    assert columns.timestamp_deltas == array("q", [0, 2])
    assert columns.key_lengths == array("q", [3, -1])
    assert columns.value_lengths == array("q", [-1, 5])
    start = columns.key_starts[0]
    assert body[start : start + 3] == b"key"
    assert (columns.record_starts[0], columns.record_starts[2]) == (0, len(body))
