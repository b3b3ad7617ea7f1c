"""Batches under random records and random damage."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import (
    Record,
    build,
    crc_is_valid,
    plain_records,
    read_header,
    read_marker,
    records,
    stamp_log_append_time,
)
from ottla.protocol.compression import Codec, compress, decompress
from ottla.protocol.record_survey import survey
from tests.support.native_modules import KINDS, load

repeatable = settings(derandomize=True, deadline=None)

INT64 = st.integers(-(2**63), 2**63 - 1)
FIELDS = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=8), FIELDS), max_size=2).map(tuple)
# Timestamps of plausible clocks, and some impossible ones.
TIMES = st.integers(-1, 2**45) | st.sampled_from([0, 2**61, -(2**61)])
DECOMPRESSED_BYTES_MAX = 1 << 20


@st.composite
def rising_records(draw: st.DrawFn, *, least: int = 1) -> list[Record]:
    gaps = draw(st.lists(st.integers(1, 200), min_size=least, max_size=8))
    taken, offset = [], draw(st.integers(0, 2**62)) - 1
    for gap in gaps:
        offset += gap
        taken.append(Record(offset, draw(TIMES), draw(FIELDS), draw(FIELDS), draw(HEADERS)))
    return taken


@st.composite
def damage(draw: st.DrawFn, intact: bytes) -> bytes:
    """The same bytes after a few flips, or a cut, or an insertion."""
    damaged = bytearray(intact)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(damaged) - 1)))
        match draw(st.sampled_from(["flip", "set", "cut", "insert", "remove"])):
            case "flip" if damaged:
                damaged[at] ^= 1 << draw(st.integers(0, 7))
            case "set" if damaged:
                damaged[at] = draw(st.sampled_from([0x00, 0x01, 0x7F, 0x80, 0xFF]))
            case "cut":
                del damaged[at:]
            case "insert":
                damaged[at:at] = draw(st.binary(max_size=12))
            case "remove":
                del damaged[at : at + draw(st.integers(1, 12))]
    return bytes(damaged)


@repeatable
@given(rising_records(), st.sampled_from(Codec), st.integers(0, 100))
def test_records_survive_a_batch(taken: list[Record], codec: Codec, before: int) -> None:
    base_offset = max(0, taken[0].offset - before)
    batch = build(taken, base_offset=base_offset, codec=codec)
    header = read_header(batch)
    assert list(records(batch)) == taken
    assert crc_is_valid(batch, header)
    assert header.last_offset == taken[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in taken)


@repeatable
@given(rising_records(), st.sampled_from(Codec), st.integers(0, 2**50))
def test_a_stamped_time_replaces_all_others(
    taken: list[Record], codec: Codec, stamped_ms: int
) -> None:
    batch = build(taken, base_offset=taken[0].offset, codec=codec)
    stamp_log_append_time(batch, stamped_ms)
    assert crc_is_valid(batch, read_header(batch))
    assert list(records(batch)) == [record._replace(timestamp=stamped_ms) for record in taken]


@repeatable
@given(rising_records(least=0), st.integers(0, 2**40), st.integers(0, 1000))
def test_what_a_cleaner_leaves_keeps_offsets_and_times(
    left: list[Record], horizon_ms: int, beyond: int
) -> None:
    base_offset = left[0].offset if left else 0
    last_offset_delta = (left[-1].offset - base_offset if left else 0) + beyond
    batch = build(
        left,
        base_offset=base_offset,
        last_offset_delta=last_offset_delta,
        delete_horizon_ms=horizon_ms,
    )
    assert list(records(batch)) == left
    assert read_header(batch).last_offset == base_offset + last_offset_delta


@repeatable
@given(st.sampled_from(Codec), st.binary(max_size=100_000))
def test_codecs_give_back_what_they_took(codec: Codec, plain: bytes) -> None:
    assert decompress(codec, compress(codec, plain), len(plain)) == plain


def answer(read: Callable[[], object]) -> ErrorCode:
    """The error code of a PeerError; other exceptions are not caught."""
    try:
        read()
    except PeerError as error:
        return error.code
    return ErrorCode.NONE


ANSWERS = {ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE}


@repeatable
@given(st.data(), st.sampled_from(Codec), st.binary(max_size=2000))
def test_damaged_streams_end_in_bounds_or_in_a_peers_error(
    data: st.DataObject, codec: Codec, plain: bytes
) -> None:
    damaged = data.draw(damage(compress(codec, plain)))
    unfolded: list[bytes | bytearray] = []
    told = answer(lambda: unfolded.append(decompress(codec, damaged, 4000)))
    assert told in ANSWERS
    assert all(len(plain) <= 4000 for plain in unfolded)


@repeatable
@given(st.data(), rising_records(), st.sampled_from(Codec))
def test_damaged_batches_are_the_peers_fault(
    data: st.DataObject, taken: list[Record], codec: Codec
) -> None:
    batch = build(taken, base_offset=taken[0].offset, codec=codec)
    damaged = data.draw(damage(bytes(batch)))
    bound = DECOMPRESSED_BYTES_MAX
    assert answer(lambda: list(records(damaged, decompressed_bytes_max=bound))) in ANSWERS
    assert answer(lambda: surveyed(damaged, bound)) in ANSWERS
    assert answer(lambda: read_marker(damaged)) in ANSWERS


def surveyed(batch: bytes, decompressed_bytes_max: int) -> object:
    body = plain_records(batch, decompressed_bytes_max=decompressed_bytes_max)
    return survey(body, read_header(batch))


def check_surveys(
    scan: ModuleType, interpreted: ModuleType, body: bytes, count: int, base: int
) -> None:
    """Native surveys give the same results as reading the records, compiled or not."""
    for name, arguments in (
        ("survey", (body, 0, 0, count, base)),
        ("flawed", (body, 0, 0, count, base, True, max(base, -5) - 5, min(base, 5) + 5)),
        ("first_at", (body, 0, count, abs(base) // 2, base, False, min(base, 5) + 1, 0)),
        ("latest_from", (body, 0, count, abs(base) // 2, base, False, 1)),
    ):
        assert outcome(getattr(scan, name), *arguments) == outcome(
            getattr(interpreted, name), *arguments
        )


def outcome(function: Any, *arguments: object) -> object:
    """The result of a call or, as comparable values, its exception."""
    try:
        return function(*arguments)
    except ValueError as error:
        return type(error), str(error)


def both(name: str, kind: str) -> tuple[ModuleType, ModuleType]:
    return load(name, kind), load(name, "interpreted")


@pytest.mark.parametrize("kind", KINDS)
@repeatable
@given(data=st.data(), taken=rising_records(), base_timestamp=INT64)
def test_reading_is_the_same_compiled_and_interpreted(
    kind: str, data: st.DataObject, taken: list[Record], base_timestamp: int
) -> None:
    scan, interpreted = both("scan", kind)
    encoded = load("build", "interpreted").encode_rows(taken, taken[0].offset, taken[0].timestamp)
    body = data.draw(st.just(bytes(encoded.body)) | damage(bytes(encoded.body)))
    count = data.draw(st.just(len(taken)) | st.integers(0, 50))
    stamped = data.draw(st.booleans())
    arguments = (body, 0, count, taken[0].offset, base_timestamp, stamped)
    assert outcome(scan.read_rows, *arguments) == outcome(interpreted.read_rows, *arguments)
    check_surveys(scan, interpreted, body, count, base_timestamp)


@pytest.mark.parametrize("kind", KINDS)
@repeatable
@given(body=st.binary(max_size=60), count=st.integers(0, 10), base=INT64)
def test_garbage_is_refused_the_same_compiled_and_interpreted(
    kind: str, body: bytes, count: int, base: int
) -> None:
    scan, interpreted = both("scan", kind)
    arguments = (body, 0, count, base, base, False)
    assert outcome(scan.read_rows, *arguments) == outcome(interpreted.read_rows, *arguments)
    check_surveys(scan, interpreted, body, count, base)


@pytest.mark.parametrize("kind", KINDS)
@repeatable
@given(taken=rising_records(least=0), base_offset=st.integers(0, 2**62), base_timestamp=INT64)
def test_building_is_the_same_compiled_and_interpreted(
    kind: str, taken: list[Record], base_offset: int, base_timestamp: int
) -> None:
    compiled, interpreted = both("build", kind)
    first = taken[0].offset if taken and base_offset % 2 else base_offset
    assert outcome(compiled.encode_rows, taken, first, base_timestamp) == outcome(
        interpreted.encode_rows, taken, first, base_timestamp
    )
