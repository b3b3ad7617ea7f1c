"""Batches in a chunk of a log: finding them, refusing invalid ones, copying retained records."""

from types import ModuleType
from typing import Any

import pytest

from ottla.native import keymap, scan
from ottla.protocol.batch import HEADER_BYTES, Record, build, crc_is_valid, read_header, records
from ottla.protocol.compression import Codec
from tests.support.native_modules import KINDS, load

NOW_MS = 1_700_000_000_000
HORIZON_MS = NOW_MS + 86_400_000


@pytest.fixture(params=KINDS)
def batches(request: pytest.FixtureRequest) -> ModuleType:
    return load("batches", request.param)


def batch(offset: int, count: int = 1, *, tombstone: bool = False, **fields: Any) -> bytes:
    value = None if tombstone else b"value"
    written = [
        Record(offset + n, NOW_MS + n, b"key-%d" % (offset + n), value) for n in range(count)
    ]
    return bytes(build(written, base_offset=offset, **fields))


def copied(
    batches: ModuleType, content: bytes, stays: list[int], kept: frozenset[int] = frozenset()
) -> Any:
    found = batches.find_batches(content, 0, NOW_MS)
    columns = scan.key_columns(content, found.starts, found.verdicts)
    return batches.copy_batches(content, found.starts, columns, bytearray(stays), kept, HORIZON_MS)


def test_whole_batches_are_found_and_an_incomplete_one_is_left(batches: ModuleType) -> None:
    whole = [batch(0, 3), batch(3), batch(9, 2)]
    content = b"".join(whole)
    ends = [len(content[: sum(map(len, whole[:number]))]) for number in range(4)]
    for size in (len(content), len(content) + 30):
        found = batches.find_batches((content + batch(11))[:size], 0, NOW_MS)
        assert (list(found.starts), found.next_offset) == (ends, 11)
        assert found.verdicts == bytes([keymap.BY_KEY]) * 3
    assert list(batches.find_batches(content[:-1], 0, NOW_MS).starts) == ends[:-1]
    for size in (0, HEADER_BYTES - 1, HEADER_BYTES, ends[1] - 1):
        assert list(batches.find_batches(content[:size], 0, NOW_MS).starts) == [0]


def test_a_compressed_batch_is_returned_alone(batches: ModuleType) -> None:
    content = batch(0) + batch(1, codec=Codec.LZ4) + batch(2, codec=Codec.LZ4)
    first = batches.find_batches(content, 0, NOW_MS)
    assert len(first.verdicts) == 1
    second = batches.find_batches(content[first.starts[-1] :], first.next_offset, NOW_MS)
    assert (len(second.verdicts), second.next_offset) == (1, 2)


def test_transactional_batches_and_passed_delete_horizons_are_reported(batches: ModuleType) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    content = b"".join(
        (
            batch(0, delete_horizon_ms=NOW_MS),
            batch(1, transactional=True, **producer),
            batch(2, delete_horizon_ms=NOW_MS + 1),
            batch(3, control=True, **producer),
        )
    )
    found = batches.find_batches(content, 0, NOW_MS)
    assert found.transactional_or_control == [1, 3]
    assert list(found.verdicts) == [keymap.BY_KEY_WITHOUT_TOMBSTONES, *[keymap.BY_KEY] * 3]


@pytest.mark.parametrize(
    ("position", "byte", "why"),
    [
        (16, 1, "magic 1"),
        (HEADER_BYTES, 0xFF, "checksum"),
        (0, 0x80, "offset"),
        (23, 0x80, "impossible"),
        (57, 0x80, "impossible"),
        (22, 0x07, "impossible"),
        (8, 0x80, "impossible"),
    ],
)
def test_bytes_that_are_not_a_batch_are_refused_when_they_come_first(
    batches: ModuleType, position: int, byte: int, why: str
) -> None:
    damaged = bytearray(batch(1))
    damaged[position] = byte
    content = batch(0) + bytes(damaged)
    assert len(batches.find_batches(content, 0, NOW_MS).verdicts) == 1
    with pytest.raises(ValueError, match=why):
        batches.find_batches(bytes(damaged), 1, NOW_MS)


def test_offsets_that_run_backwards_are_refused(batches: ModuleType) -> None:
    assert len(batches.find_batches(batch(5) + batch(5), 0, NOW_MS).verdicts) == 1
    with pytest.raises(ValueError, match="offset 5 where 6"):
        batches.find_batches(batch(5), 6, NOW_MS)


def test_a_batch_whose_records_are_all_retained_is_copied_unchanged(batches: ModuleType) -> None:
    content = batch(0, 3) + batch(3, 2, delete_horizon_ms=HORIZON_MS, tombstone=True)
    left = copied(batches, content, [1, 1, 1, 2, 2])
    assert (left.content, left.changed, left.records_dropped) == (content, 0, 0)
    assert sum(left.sizes) == len(content)
    assert (left.last_offsets, left.max_timestamps_ms) == ([2, 4], [NOW_MS + 2, NOW_MS + 1])


def test_a_cleaned_batch_keeps_its_offset_range_and_its_producer(batches: ModuleType) -> None:
    producer = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11}
    left = copied(batches, batch(10, 4, leader_epoch=5, **producer), [0, 1, 0, 0])
    header = read_header(left.content)
    assert crc_is_valid(left.content, header)
    assert (header.base_offset, header.last_offset, header.count) == (10, 13, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert (header.max_timestamp, left.max_timestamps_ms) == (NOW_MS + 1, [NOW_MS + 1])
    assert header.partition_leader_epoch == 5
    assert [record.offset for record in records(left.content)] == [11]
    assert (left.changed, left.records_dropped) == (1, 3)


def test_an_empty_batch_is_dropped_unless_it_must_be_kept(batches: ModuleType) -> None:
    content = batch(0, 2) + batch(2, 2) + batch(4)
    left = copied(batches, content, [0] * 5, frozenset({3}))
    header = read_header(left.content)
    assert (len(left.content), left.last_offsets) == (HEADER_BYTES, [3])
    assert (header.base_offset, header.last_offset, header.count) == (2, 3, 0)
    assert (header.base_timestamp, header.max_timestamp) == (-1, NOW_MS + 1)
    assert crc_is_valid(left.content, header)
    again = copied(batches, bytes(left.content), [], frozenset({3}))
    assert again.content == left.content, "what is empty stays as it is"


def test_tombstones_get_a_delete_horizon_and_keep_their_timestamps(batches: ModuleType) -> None:
    left = copied(batches, batch(0, 3, tombstone=True), [2, 0, 2])
    header = read_header(left.content)
    assert (header.delete_horizon_ms, header.max_timestamp) == (HORIZON_MS, NOW_MS + 2)
    assert [record.timestamp for record in records(left.content)] == [NOW_MS, NOW_MS + 2]
    whole = copied(batches, batch(0, 3, tombstone=True), [2, 2, 2])
    assert (whole.changed, read_header(whole.content).delete_horizon_ms) == (1, HORIZON_MS)


def test_log_append_time_is_kept(batches: ModuleType) -> None:
    left = copied(batches, batch(0, 2, log_append_time_ms=NOW_MS + 77), [1, 0])
    assert read_header(left.content).max_timestamp == NOW_MS + 77


def test_a_timestamp_beyond_64_bits_is_refused(batches: ModuleType) -> None:
    sent = build([Record(0, 0, b"k", b"v"), Record(1, 2**63 - 1, b"k", b"v")])
    stamped = bytearray(sent)
    stamped[27:35] = (2**62).to_bytes(8, "big")
    found = batches.find_batches(bytes(sent), 0, NOW_MS)
    columns = scan.key_columns(bytes(sent), found.starts, found.verdicts)
    with pytest.raises(ValueError, match="64 bits"):
        batches.copy_batches(
            bytes(stamped), found.starts, columns, bytearray((0, 1)), frozenset(), HORIZON_MS
        )
