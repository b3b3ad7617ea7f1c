import pytest

from ottla.errors import ErrorCode
from ottla.protocol.batch import (
    HEADER_BYTES,
    PREFIX_BYTES,
    BatchHeader,
    CorruptBatch,
    Marker,
    MarkerKind,
    Record,
    build,
    build_marker,
    crc_is_valid,
    crc_of,
    plain_records,
    prefix,
    read_header,
    read_marker,
    records,
    stamp_log_append_time,
)
from ottla.protocol.compression import Codec, DecompressedTooLarge
from ottla.protocol.record_survey import survey

THREE = [
    Record(0, 1000, b"a", b"first", (("h", b"x"), ("h", None))),
    Record(1, 990, None, b""),
    Record(2, 1020, b"", None),
]


def test_a_built_batch_has_the_given_header_fields() -> None:
    batch = build(
        [Record(10, 1000, b"k", b"v"), Record(13, 900, b"k", b"v")],
        base_offset=10,
        leader_epoch=3,
        codec=Codec.ZSTD,
        producer_id=7,
        producer_epoch=2,
        base_sequence=40,
        transactional=True,
    )
    header = read_header(batch)
    assert header == BatchHeader(
        base_offset=10,
        length=len(batch) - 12,
        partition_leader_epoch=3,
        magic=2,
        crc=crc_of(batch, 0, len(batch)),
        attributes=0x14,
        last_offset_delta=3,
        base_timestamp=1000,
        max_timestamp=1000,
        producer_id=7,
        producer_epoch=2,
        base_sequence=40,
        count=2,
    )
    assert header.size == len(batch)
    assert (header.last_offset, header.next_offset, header.last_sequence) == (13, 14, 43)
    assert header.codec == Codec.ZSTD
    assert header.has_producer
    assert header.is_transactional
    assert not header.is_control
    assert not header.is_log_append_time
    assert header.delete_horizon_ms is None


def test_a_batch_without_a_producer_has_no_sequence() -> None:
    header = read_header(build(THREE))
    assert not header.has_producer
    assert header.last_sequence == -1


@pytest.mark.parametrize(
    ("base_sequence", "last_sequence"),
    [(0, 2), (2**31 - 3, 2**31 - 1), (2**31 - 2, 0), (2**31 - 1, 1)],
)
def test_sequence_numbers_wrap_to_zero(base_sequence: int, last_sequence: int) -> None:
    batch = build(THREE, producer_id=1, producer_epoch=0, base_sequence=base_sequence)
    assert read_header(batch).last_sequence == last_sequence


def test_a_header_needs_61_bytes() -> None:
    batch = bytes(build(THREE))
    assert read_header(b"junk" + batch, 4) == read_header(memoryview(batch))
    with pytest.raises(CorruptBatch, match="batch at byte 4: 60 bytes") as refused:
        read_header(b"junk" + batch[:60], 4)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_prefix_and_the_rest_are_the_batch_in_its_place_without_a_new_crc() -> None:
    batch = build(THREE)
    written = prefix(5000, read_header(batch).length, 9) + batch[PREFIX_BYTES:]
    assert read_header(written) == read_header(batch).placed(5000, 9)
    assert crc_is_valid(written, read_header(written))
    assert [record.offset for record in records(written)] == [5000, 5001, 5002]


def test_log_append_time_is_the_timestamp_of_every_record() -> None:
    batch = build(THREE, codec=Codec.LZ4)
    stamp_log_append_time(memoryview(batch), 7777)
    header = read_header(batch)
    assert header.is_log_append_time
    assert header.codec == Codec.LZ4
    assert header.max_timestamp == 7777
    assert crc_is_valid(batch, header)
    assert [record.timestamp for record in records(batch)] == [7777] * 3
    assert batch == build(THREE, codec=Codec.LZ4, log_append_time_ms=7777)


def test_the_crc_detects_every_flipped_bit_that_it_covers() -> None:
    batch = build(THREE)
    header = read_header(batch)
    for position in range(PREFIX_BYTES + 5, len(batch)):
        batch[position] ^= 0x10
        assert not crc_is_valid(batch, header)
        batch[position] ^= 0x10
    assert crc_is_valid(batch, header)


def test_the_crc_of_a_truncated_batch_is_not_valid() -> None:
    batch = build(THREE)
    header = read_header(batch)
    assert not crc_is_valid(batch[:-1], header)
    assert not crc_is_valid(batch, header, 1)
    assert not crc_is_valid(batch, header._replace(length=48))
    assert not crc_is_valid(batch, header._replace(length=-100))


@pytest.mark.parametrize("codec", Codec)
def test_records_survive_a_round_trip(codec: Codec) -> None:
    batch = build(THREE, codec=codec)
    assert list(records(batch)) == THREE
    assert list(records(b"junk" + bytes(batch) + b"junk", 4)) == THREE
    assert list(records(memoryview(batch))) == THREE


def test_records_are_built_lazily() -> None:
    many = [Record(offset, 0, None, None) for offset in range(2000)]
    batch = build(many)
    damaged = bytearray(batch)
    damaged[-8] = 1  # the last record's length becomes -1
    found = records(damaged)
    assert next(found) == many[0]
    with pytest.raises(CorruptBatch, match="records section, byte"):
        list(found)
    assert list(records(batch)) == many


def test_cleaned_records_keep_their_offsets_and_timestamps() -> None:
    batch = build(
        [THREE[1]],
        base_offset=0,
        last_offset_delta=2,
        producer_id=4,
        producer_epoch=0,
        base_sequence=10,
        delete_horizon_ms=123_456,
    )
    header = read_header(batch)
    assert list(records(batch)) == [THREE[1]]
    assert (header.count, header.last_offset, header.last_sequence) == (1, 2, 12)
    assert (header.delete_horizon_ms, header.max_timestamp) == (123_456, 990)


def test_a_cleaned_batch_may_have_no_records_left() -> None:
    batch = build([], base_offset=40, last_offset_delta=2)
    header = read_header(batch)
    assert len(batch) == HEADER_BYTES
    assert (header.count, header.last_offset) == (0, 42)
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)
    assert list(records(batch)) == []


def test_build_refuses_values_that_do_not_fit_the_format() -> None:
    with pytest.raises(ValueError, match="last offset delta"):
        build([])
    with pytest.raises(ValueError, match="beyond the last offset delta"):
        build(THREE, last_offset_delta=1)
    with pytest.raises(ValueError, match="offset delta -1"):
        build(THREE, base_offset=1)


@pytest.mark.parametrize(
    ("position", "patch", "complaint"),
    [
        (16, b"\x01", "magic 1"),
        (8, b"\x00\x00\x00\x30", "60 bytes, but"),
        (8, b"\x00\x01\x00\x00", "65548 bytes, but"),
        (8, b"\xff\xff\xff\xff", "11 bytes, but"),
        (57, b"\xff\xff\xff\xff", "a count of -1"),
        (22, b"\x05", "codec 5"),
        (22, b"\x07", "codec 7"),
        (57, b"\x7f\xff\xff\xff", "records section, byte"),
        (57, b"\x00\x00\x00\x02", "bytes behind the last record"),
        (57, b"\x00\x00\x00\x00", "bytes behind the last record"),
    ],
)
def test_wrong_header_fields_are_corrupt(position: int, patch: bytes, complaint: str) -> None:
    batch = build(THREE)
    batch[position : position + len(patch)] = patch
    with pytest.raises(CorruptBatch, match=complaint):
        list(records(batch))
    with pytest.raises(CorruptBatch, match=complaint):
        survey(plain_records(batch), read_header(batch))


def test_the_decompressed_size_limit_holds_for_a_compressed_batch() -> None:
    batch = build([Record(0, 0, b"k", bytes(1 << 20))], codec=Codec.ZSTD)
    with pytest.raises(DecompressedTooLarge):
        next(records(batch, decompressed_bytes_max=1 << 20))
    with pytest.raises(DecompressedTooLarge):
        plain_records(batch, decompressed_bytes_max=1 << 20)
    assert len(plain_records(batch, decompressed_bytes_max=2 << 20)) > 1 << 20


def test_uncompressed_records_are_a_view_and_not_a_copy() -> None:
    batch = build(THREE)
    view = plain_records(batch)
    assert isinstance(view, memoryview)
    assert view.obj is batch


@pytest.mark.parametrize("kind", MarkerKind)
def test_a_marker_survives_a_round_trip_through_its_control_batch(kind: MarkerKind) -> None:
    marker = Marker(kind, coordinator_epoch=5)
    batch = build_marker(
        marker,
        producer_id=9,
        producer_epoch=3,
        timestamp_ms=100,
        base_offset=70,
        leader_epoch=2,
    )
    header = read_header(batch)
    assert read_marker(b"junk" + bytes(batch), 4) == marker
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, -1)
    assert (header.base_offset, header.last_offset, header.max_timestamp) == (70, 70, 100)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0\0\0\0\0"),
        (b"\0\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
    ],
)
def test_truncated_control_records_are_corrupt(key: bytes | None, value: bytes | None) -> None:
    batch = build([Record(0, 0, key, value)], control=True, transactional=True)
    with pytest.raises(CorruptBatch):
        read_marker(batch)


def test_an_emptied_control_batch_has_no_marker() -> None:
    assert read_marker(build([], last_offset_delta=0, control=True)) is None
