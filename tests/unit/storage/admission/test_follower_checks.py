import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import (
    CorruptBatch,
    Marker,
    MarkerKind,
    build_marker,
    read_header,
)
from ottla.storage.admission.follower_checks import check_replicated, marker_of
from ottla.storage.log.retention import OFFSET_DELTA_MAX
from tests.support.storage.workbench import NOW_MS, batch_of
from tests.unit.storage.admission.test_leader_checks import altered


def check(batch: bytearray, end_offset: int) -> None:
    check_replicated(memoryview(batch), 0, read_header(batch), end_offset)


def test_a_replicated_batch_follows_the_log_end_offset_or_leaves_a_gap() -> None:
    batch = batch_of(NOW_MS, NOW_MS, base_offset=5)
    check(batch, 5)
    check(batch, 3)
    with pytest.raises(PeerError) as refused:
        check(batch, 6)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_gap_is_no_wider_than_a_segment_can_index() -> None:
    batch = batch_of(NOW_MS, base_offset=OFFSET_DELTA_MAX + 7)
    check(batch, 7)
    with pytest.raises(PeerError) as refused:
        check(batch, 6)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_damaged_replicated_batch_is_corrupt() -> None:
    for batch in (
        altered(batch_of(), crc=1),
        altered(batch_of(), magic=1),
        altered(batch_of(), length=1000),
    ):
        with pytest.raises(CorruptBatch):
            check(batch, 0)


def test_a_batch_that_claims_fewer_offsets_than_one_is_refused() -> None:
    with pytest.raises(PeerError) as refused:
        check(altered(batch_of(), last_offset_delta=-1), 0)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_only_a_control_batch_with_a_record_has_a_marker() -> None:
    marker = build_marker(
        Marker(MarkerKind.ABORT, 3), producer_id=7, producer_epoch=0, timestamp_ms=NOW_MS
    )
    assert marker_of(marker, read_header(marker)) == Marker(MarkerKind.ABORT, 3)
    emptied = altered(marker, count=0)
    assert marker_of(emptied, read_header(emptied)) is None
    plain = batch_of()
    assert marker_of(plain, read_header(plain)) is None
