"""The offset map: equal to a dictionary, within its memory limit, safe from forced collisions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native.batches import Batches, find_batches
from ottla.native.keymap import (
    BY_KEY_WITHOUT_TOMBSTONES,
    DISCARD_ALL,
    DISCARDED,
    RETAIN_ALL,
    RETAIN_ALL_UNTIL_HORIZON,
    RETAINED,
    RETAINED_UNTIL_HORIZON,
    SLOT_BYTES,
    KeyMap,
)
from ottla.native.scan import KeyColumns, key_columns
from ottla.protocol.batch import Record, build

SECRET = bytes(range(16))
Rows = list[tuple[bytes | None, bytes | None]]


def batch_of(rows: Rows, base_offset: int = 0) -> bytes:
    return bytes(
        build(
            [Record(base_offset + n, 1000 + n, key, value) for n, (key, value) in enumerate(rows)],
            base_offset=base_offset,
            last_offset_delta=max(len(rows) - 1, 0),
        )
    )


def columns_of(content: bytes, verdict: int | None = None) -> tuple[Batches, KeyColumns]:
    batches = find_batches(content, 0, 0)
    if verdict is not None:
        batches.verdicts[:] = bytes([verdict]) * len(batches.verdicts)
    return batches, key_columns(content, batches.starts, batches.verdicts)


def put(keys: KeyMap, rows: Rows, base_offset: int, start_offset: int = 0) -> bool:
    content = batch_of(rows, base_offset)
    return keys.put(content, columns_of(content)[1], start_offset)


def marks(keys: KeyMap, rows: Rows, base_offset: int, verdict: int | None = None) -> list[int]:
    content = batch_of(rows, base_offset)
    batches, columns = columns_of(content, verdict)
    return list(keys.mark(content, columns, batches.verdicts))


@pytest.mark.parametrize(
    ("length", "expected"),
    [(0, "a3817f04ba25a8e66df67214c7550293"), (1, "da87c1d86b99af44347659119b22fc45")],
)
def test_the_hash_matches_the_published_siphash_vectors(length: int, expected: str) -> None:
    halves = KeyMap(SECRET, 1000).hash(bytes(range(length)))
    assert b"".join(half.to_bytes(8, "little") for half in halves).hex() == expected


def test_every_bit_of_key_and_secret_changes_the_hash() -> None:
    plain = KeyMap(SECRET, 1000)
    keys = [bytes(length) for length in range(40)] + [bytes([n]) * 9 for n in range(1, 200)]
    assert len({plain.hash(key) for key in keys}) == len(keys)
    assert KeyMap(bytes(16), 1000).hash(b"key") != plain.hash(b"key")


def test_a_record_is_discarded_if_a_later_one_has_its_key() -> None:
    keys = KeyMap(SECRET, 10_000)
    rows: Rows = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", None)]
    assert put(keys, rows, 100)
    assert (len(keys), keys.latest_offset) == (3, 103)
    assert marks(keys, rows, 100) == [DISCARDED, RETAINED, RETAINED, RETAINED_UNTIL_HORIZON]
    assert marks(keys, [(b"c", b"old"), (b"d", b"old")], 0) == [DISCARDED, RETAINED]


def test_a_tombstone_is_discarded_past_its_horizon_and_the_records_before_it_always() -> None:
    keys = KeyMap(SECRET, 10_000)
    put(keys, [(b"a", b"1"), (b"a", None)], 0)
    assert marks(keys, [(b"a", b"1"), (b"a", None)], 0, BY_KEY_WITHOUT_TOMBSTONES) == [
        DISCARDED,
        DISCARDED,
    ]


def test_records_without_a_key_are_discarded_and_uncovered_ones_retained() -> None:
    keys = KeyMap(SECRET, 10_000)
    put(keys, [(b"a", b"1")], 0)
    keys.cover(4)
    assert marks(keys, [(None, b"x"), (b"a", None), (None, b"y")], 4) == [
        DISCARDED,
        RETAINED_UNTIL_HORIZON,
        RETAINED,
    ]


def test_a_verdict_on_a_whole_batch_overrides_its_keys() -> None:
    keys = KeyMap(SECRET, 10_000)
    rows: Rows = [(b"a", b"1"), (None, b"2"), (b"a", None)]
    put(keys, rows, 0)
    assert marks(keys, rows, 0, RETAIN_ALL) == [RETAINED] * 3
    assert marks(keys, rows, 0, RETAIN_ALL_UNTIL_HORIZON) == [RETAINED_UNTIL_HORIZON] * 3
    assert marks(keys, rows, 0, DISCARD_ALL) == []


def test_records_before_the_start_are_not_added() -> None:
    keys = KeyMap(SECRET, 10_000)
    put(keys, [(b"a", b"1"), (b"b", b"2")], 10, start_offset=11)
    assert len(keys) == 1
    assert marks(keys, [(b"a", b"0"), (b"b", b"0")], 0) == [RETAINED, DISCARDED]


def test_a_full_map_reports_it_and_knows_how_far_it_reaches() -> None:
    keys = KeyMap(SECRET, 10 * SLOT_BYTES, keys_expected=100)
    rows: Rows = [(b"%d" % number, b"v") for number in range(20)]
    assert not put(keys, rows, 50)
    assert (len(keys), keys.latest_offset) == (9, 58)
    assert keys.utilization == 1.0
    assert marks(keys, rows, 20)[:9] == [DISCARDED] * 9
    assert put(keys, [(b"3", b"again")], 90), "a key that is known needs no room"


def test_the_map_grows_within_its_limit_and_loses_no_key() -> None:
    keys = KeyMap(SECRET, 300 * SLOT_BYTES)
    rows: Rows = [(b"%d" % number, b"v") for number in range(300)]
    assert not put(keys, rows, 1_000)
    # The old and the new table fit into the limit together: the new one has at most two thirds.
    assert 80 <= len(keys) <= 180
    known = len(keys)
    assert marks(keys, rows[:known], 0) == [DISCARDED] * known


@pytest.mark.parametrize(("secret", "bytes_max"), [(b"short", 1000), (SECRET, 47)])
def test_invalid_arguments_are_refused(secret: bytes, bytes_max: int) -> None:
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
def test_the_map_retains_the_same_records_as_a_dictionary(batches: list[Rows]) -> None:
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
        assert [bool(mark) for mark in marks(keys, rows, offset)] == kept
        offset += len(rows)
