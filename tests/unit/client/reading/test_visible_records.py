"""The fetched records that a consumer sees."""

import pytest

from ottla.client.reading.fetch import Aborted
from ottla.client.reading.visible_records import BatchTooLarge, visible
from ottla.protocol.batch import CorruptBatch, Marker, MarkerKind, Record, build, build_marker
from ottla.protocol.compression import Codec
from tests.support.forged_batches import NOW_MS, forged

HEADER_BYTES = 61


def batch(base_offset: int, *values: bytes, producer_id: int = -1) -> bytes:
    records = [
        Record(base_offset + index, 1000 + index, None, value) for index, value in enumerate(values)
    ]
    return bytes(
        build(
            records,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            transactional=producer_id >= 0,
        )
    )


def marker(base_offset: int, kind: MarkerKind, producer_id: int) -> bytes:
    return bytes(
        build_marker(
            Marker(kind, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=1,
            base_offset=base_offset,
        )
    )


def seen(fetched: bytes, offset: int = 0, *aborted: Aborted) -> tuple[list[bytes | None], int]:
    found = visible(memoryview(fetched), aborted, offset)
    return [record.value for record in found.records], found.next_offset


def test_a_reader_in_the_middle_of_a_batch_sees_the_rest_of_it() -> None:
    assert seen(batch(10, b"a", b"b", b"c"), 11) == ([b"b", b"c"], 13)


def test_batches_before_the_position_are_skipped() -> None:
    assert seen(batch(0, b"a") + batch(1, b"b"), 1) == ([b"b"], 2)


def test_nothing_fetched_leaves_the_position() -> None:
    assert seen(b"", 7) == ([], 7)


@pytest.mark.parametrize("cut", [1, HEADER_BYTES - 1, HEADER_BYTES + 2])
def test_an_incomplete_last_batch_is_left_for_the_next_fetch(cut: int) -> None:
    assert seen(batch(0, b"a") + batch(1, b"b")[:cut]) == ([b"a"], 1)


@pytest.mark.parametrize("cut", [1, HEADER_BYTES, HEADER_BYTES + 2])
def test_an_incomplete_first_batch_is_an_error(cut: int) -> None:
    with pytest.raises(BatchTooLarge, match=f"{cut} bytes"):
        seen(batch(0, b"a")[:cut])


def test_a_wrong_checksum_is_an_error() -> None:
    changed = bytearray(batch(0, b"a"))
    changed[-2] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        seen(bytes(changed))


def test_an_impossible_length_is_an_error() -> None:
    changed = bytearray(batch(0, b"a"))
    changed[8:12] = (5).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="length of 5"):
        seen(bytes(changed))


def test_control_records_are_invisible_and_advance_the_position() -> None:
    fetched = batch(0, b"a", producer_id=7) + marker(1, MarkerKind.COMMIT, 7)
    assert seen(fetched) == ([b"a"], 2)


def test_an_aborted_transaction_is_invisible_and_the_producers_next_one_is_visible() -> None:
    fetched = (
        batch(0, b"before")
        + batch(1, b"void", b"void", producer_id=7)
        + batch(3, b"other", producer_id=8)
        + batch(4, b"void", producer_id=7)
        + marker(5, MarkerKind.ABORT, 7)
        + batch(6, b"kept", producer_id=7)
        + marker(7, MarkerKind.COMMIT, 7)
        + marker(8, MarkerKind.COMMIT, 8)
    )
    assert seen(fetched, 0, Aborted(7, 1)) == ([b"before", b"other", b"kept"], 9)


def test_two_aborted_transactions_of_one_producer_are_told_apart() -> None:
    fetched = (
        batch(0, b"void", producer_id=7)
        + marker(1, MarkerKind.ABORT, 7)
        + batch(2, b"kept", producer_id=7)
        + marker(3, MarkerKind.COMMIT, 7)
        + batch(4, b"void", producer_id=7)
        + marker(5, MarkerKind.ABORT, 7)
    )
    # In any order of the broker.
    assert seen(fetched, 0, Aborted(7, 4), Aborted(7, 0)) == ([b"kept"], 6)


def test_an_aborted_transaction_that_began_before_the_fetch_is_invisible() -> None:
    fetched = batch(50, b"void", producer_id=7) + marker(51, MarkerKind.ABORT, 7) + batch(52, b"a")
    assert seen(fetched, 50, Aborted(7, 3)) == ([b"a"], 53)


def test_records_outside_of_transactions_are_visible() -> None:
    plain = build([Record(0, 1, None, b"a")], producer_id=7, producer_epoch=0, base_sequence=0)
    assert seen(bytes(plain), 0, Aborted(7, 0)) == ([b"a"], 1)


@pytest.mark.parametrize("codec", Codec)
def test_an_unreadable_batch_is_reported_and_skipped(codec: Codec) -> None:
    batches = [build([Record(0, 0, b"k", b"a")]), forged(b"garbage", codec, base_offset=1)]
    batches.append(build([Record(3, 0, b"k", b"b")], base_offset=3))
    seen = visible(memoryview(b"".join(batches)), (), 0)
    assert [record.value for record in seen.records] == [b"a", b"b"]
    assert seen.next_offset == 4
    ((first_offset, next_offset, reason),) = seen.unreadable
    assert (first_offset, next_offset) == (1, 3)
    assert reason


def test_records_before_a_bad_one_are_visible() -> None:
    sound = build([Record(0, NOW_MS, b"k", b"a"), Record(1, NOW_MS, b"k", b"b")])
    batch = forged(bytes(sound[61:-3]) + b"\xff" * 3)
    seen = visible(memoryview(bytes(batch)), (), 0)
    assert [record.value for record in seen.records] in ([b"a"], [])
    assert [each.next_offset for each in seen.unreadable] == [2]
