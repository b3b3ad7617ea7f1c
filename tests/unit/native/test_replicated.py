"""The batches that a follower's native reader declines. The checks in Python decide about them."""

import struct
from collections.abc import Callable
from types import ModuleType

import pytest

from ottla.protocol.batch import CRC_START, Marker, MarkerKind, Record, build, build_marker, crc_of
from tests.support.native_modules import KINDS, load
from tests.support.protocol.stamping import stamp

EPOCH = 3


@pytest.fixture(params=KINDS)
def replicated(request: pytest.FixtureRequest) -> ModuleType:
    return load("replicated", request.param)


def batch(base_offset: int) -> bytearray:
    records = [Record(base_offset + at, 1_000 + at, None, b"value") for at in range(2)]
    return build(records, base_offset=base_offset, leader_epoch=EPOCH)


def with_field(spoiled: bytearray, at: int, form: str, value: int) -> bytearray:
    """The batch with another field in its header, and the checksum of that."""
    struct.pack_into(form, spoiled, at, value)
    if at >= CRC_START:
        struct.pack_into(">I", spoiled, 17, crc_of(spoiled, 0, len(spoiled)))
    return spoiled


def marker(base_offset: int) -> bytearray:
    made = build_marker(
        Marker(MarkerKind.COMMIT, 0), producer_id=7, producer_epoch=0, timestamp_ms=1_000
    )
    stamp(made, base_offset, EPOCH)
    return made


def test_batches_are_noted_with_their_places_in_the_segment(replicated: ModuleType) -> None:
    sent = [batch(10), batch(12), batch(20)]
    size = len(sent[0])
    run = replicated.read(memoryview(b"".join(sent)), 500, 10, EPOCH)
    assert run == (
        3 * size,
        [500, 500 + size, 500 + 2 * size],
        [10, 12, 20],
        [11, 13, 21],
        [1_001, 1_001, 1_001],
        6,
        [],
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda each: with_field(each, 0, ">q", 11),
        lambda each: with_field(each, 0, ">q", -1),
        lambda each: with_field(each, 0, ">q", 12 + 2**31 - 1),
        lambda each: with_field(each, 0, ">q", 2**63 - 1),
        lambda each: with_field(each, 8, ">i", 48),
        lambda each: with_field(each, 8, ">i", -1),
        lambda each: with_field(each, 8, ">i", 2**31 - 1),
        lambda each: with_field(each, 8, ">i", len(each) - 13),
        lambda each: with_field(each, 8, ">i", len(each) - 11),
        lambda each: with_field(each, 12, ">i", EPOCH + 1),
        lambda each: with_field(each, 16, ">b", 1),
        lambda each: with_field(each, 17, ">I", 0),
        lambda each: with_field(each, 23, ">i", -1),
        lambda each: marker(12),
        lambda each: each[:-1] + b"?",
        lambda each: each[:-1],
        lambda each: each[:61],
        lambda each: each[:60],
    ],
)
def test_the_reader_stops_before_a_batch_that_is_not_ordinary(
    replicated: ModuleType, spoil: Callable[[bytearray], bytearray]
) -> None:
    first = batch(10)
    sent = bytes(first + spoil(batch(12)))
    size, positions, *_ = replicated.read(memoryview(sent), 0, 10, EPOCH)
    assert (size, positions) == (len(first), [0])


def test_a_batch_whose_length_leaves_its_header_out_is_declined(replicated: ModuleType) -> None:
    """Its checksum would cover no more than a part of the header."""
    short = batch(10)
    struct.pack_into(">i", short, 8, 30)
    struct.pack_into(">I", short, 17, crc_of(short, 0, 42))
    assert replicated.read(memoryview(short), 0, 10, EPOCH)[0] == 0


def test_the_widest_gap_that_a_segment_can_index_is_taken(replicated: ModuleType) -> None:
    widest = with_field(batch(12), 0, ">q", 12 + 2**31 - 2)
    assert replicated.read(memoryview(widest), 0, 12, EPOCH)[0] == len(widest)


def test_an_empty_answer_has_no_batch(replicated: ModuleType) -> None:
    assert replicated.read(memoryview(b""), 0, 0, -1) == (0, [], [], [], [], 0, [])
