"""What compaction decides: what is dirty, when it is due, what joins, what a batch keeps."""

import pytest

from ottla.protocol.batch import (
    BatchHeader,
    Marker,
    MarkerKind,
    Record,
    build,
    build_marker,
    read_header,
)
from ottla.storage.compaction.rules import (
    BatchJudge,
    Cleanable,
    CompactionRules,
    LatestBatches,
    Source,
    cleanable,
    group_segments,
    is_due,
    overdue_ms,
)
from ottla.storage.log.retention import OFFSET_DELTA_MAX, SegmentSummary
from ottla.storage.producers.state import AbortedTransaction

NOW_MS = 1_700_000_000_000
RULES = CompactionRules(compacts=True)
# Three closed segments of 100 offsets and 10 bytes each, a minute apart, and the active one.
SEGMENTS = [
    SegmentSummary(base, base + 100, 10, NOW_MS - (4 - number) * 60_000, is_active=number == 3)
    for number, base in enumerate((0, 100, 200, 300))
]


def look(
    *,
    cleaned_offset: int = 0,
    start_offset: int = 0,
    end_offset_max: int = 10_000,
    rules: CompactionRules = RULES,
) -> Cleanable:
    return cleanable(
        SEGMENTS,
        rules,
        cleaned_offset=cleaned_offset,
        start_offset=start_offset,
        end_offset_max=end_offset_max,
        now_ms=NOW_MS,
    )


def test_all_but_the_active_segment_is_dirty_at_first() -> None:
    assert look() == Cleanable(0, 300, clean_bytes=0, dirty_bytes=30)


def test_what_was_compacted_is_clean_and_the_rest_is_dirty() -> None:
    found = look(cleaned_offset=200)
    assert found == Cleanable(200, 300, clean_bytes=20, dirty_bytes=10)
    assert found.dirty_ratio == pytest.approx(1 / 3)


def test_a_segment_that_was_compacted_in_part_is_dirty() -> None:
    assert look(cleaned_offset=150) == Cleanable(150, 300, clean_bytes=10, dirty_bytes=20)


@pytest.mark.parametrize(("end_offset_max", "end_offset"), [(299, 200), (300, 300), (99, 0)])
def test_what_is_not_stable_or_not_flushed_is_left_alone(
    end_offset_max: int, end_offset: int
) -> None:
    assert look(end_offset_max=end_offset_max).end_offset == end_offset


def test_young_records_are_left_alone_and_so_is_all_behind_them() -> None:
    young = CompactionRules(compacts=True, min_lag_ms=150_000)
    assert look(rules=young).end_offset == 200
    assert look(rules=young, cleaned_offset=300).end_offset == 300, "what is clean has no age"


def test_what_was_trimmed_is_not_looked_at_and_what_never_was_is_forgotten() -> None:
    assert look(cleaned_offset=50, start_offset=120).first_dirty_offset == 120
    assert look(cleaned_offset=5_000, start_offset=120).first_dirty_offset == 120


def test_it_is_due_when_more_than_the_ratio_is_dirty() -> None:
    assert is_due(Cleanable(0, 1, 49, 51), RULES)
    assert not is_due(Cleanable(0, 1, 50, 50), RULES)
    assert not is_due(Cleanable(0, 1, 0, 0, overdue_ms=5), RULES)


def test_it_is_due_when_something_has_waited_for_too_long() -> None:
    rules = CompactionRules(compacts=True, max_lag_ms=1000)
    assert overdue_ms([NOW_MS - 1500, NOW_MS - 200, 0], rules, NOW_MS) == 500
    assert overdue_ms([NOW_MS - 500], rules, NOW_MS) == 0
    assert overdue_ms([], rules, NOW_MS) == 0
    assert is_due(Cleanable(0, 1, 99, 1, overdue_ms=1), rules)


def grouped(*sources: Source, segment_bytes: int = 100, index_bytes_max: int = 100) -> list[int]:
    """How many segments each group has."""
    groups = group_segments(sources, segment_bytes=segment_bytes, index_bytes_max=index_bytes_max)
    assert [each for group in groups for each in group] == list(sources)
    return [len(group) for group in groups]


def test_neighbours_join_as_long_as_they_fit() -> None:
    sources = [Source(n * 10, n * 10 + 10, size, 1) for n, size in enumerate((40, 40, 40, 100, 5))]
    assert grouped(*sources) == [2, 1, 1, 1]


def test_a_segment_that_is_too_large_already_stays_alone() -> None:
    assert grouped(Source(0, 10, 500, 1), Source(10, 20, 1, 1)) == [1, 1]


def test_indexes_and_the_reach_of_their_entries_bound_a_group() -> None:
    assert grouped(Source(0, 10, 1, 60), Source(10, 20, 1, 60)) == [1, 1]
    far = OFFSET_DELTA_MAX + 1
    assert grouped(Source(0, 10, 1, 1), Source(10, far, 1, 1), Source(far, far + 1, 1, 1)) == [2, 1]


# --- batches ----------------------------------------------------------------------------------


def header_at(offset: int, *, producer_id: int = -1, transactional: bool = False) -> BatchHeader:
    return read_header(
        build(
            [Record(offset, NOW_MS, b"k", b"v")],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=transactional,
        )
    )


def marker_at(
    offset: int, producer_id: int, kind: MarkerKind, horizon_ms: int | None = None
) -> BatchHeader:
    header = read_header(
        build_marker(
            Marker(kind, 0),
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=NOW_MS,
            base_offset=offset,
        )
    )
    if horizon_ms is None:
        return header
    return header._replace(attributes=header.attributes | 0x40, base_timestamp=horizon_ms)


ABORTED = AbortedTransaction(7, 10, 20, 21)


def judge(producers: dict[int, LatestBatches] | None = None) -> BatchJudge:
    return BatchJudge([ABORTED], producers or {}, NOW_MS)


def test_records_of_an_aborted_transaction_go_and_those_around_it_stay() -> None:
    judged = [
        judge().judge(header_at(offset, producer_id=7, transactional=True), None)
        for offset in (9, 10, 19, 21)
    ]
    assert [each.drops_records for each in judged] == [False, True, True, False]
    other = judge().judge(header_at(15, producer_id=8, transactional=True), None)
    assert not other.drops_records


def test_a_marker_stays_while_there_is_something_of_its_transaction() -> None:
    at_work = judge()
    at_work.judge(header_at(10, producer_id=7, transactional=True), None)
    judged = at_work.judge(marker_at(20, 7, MarkerKind.ABORT), MarkerKind.ABORT)
    assert (judged.drops_records, judged.is_idle_marker) == (False, False)
    assert judged.aborted == ABORTED


def test_a_marker_without_a_transaction_gets_its_horizon_and_then_goes() -> None:
    first = judge().judge(marker_at(20, 7, MarkerKind.COMMIT), MarkerKind.COMMIT)
    assert (first.drops_records, first.is_idle_marker) == (False, True)
    early = marker_at(20, 7, MarkerKind.COMMIT, NOW_MS + 1)
    assert not judge().judge(early, MarkerKind.COMMIT).drops_records
    late = marker_at(20, 7, MarkerKind.COMMIT, NOW_MS)
    assert judge().judge(late, MarkerKind.COMMIT).drops_records


def test_batches_that_a_producer_could_repeat_stay_when_empty() -> None:
    assert judge({7: LatestBatches(0, (30, 31)), 8: LatestBatches(2, (35,))}).kept == {30, 31, 35}


def test_of_a_producer_without_batches_the_marker_stays_that_tells_its_epoch() -> None:
    marker = marker_at(20, 7, MarkerKind.COMMIT, NOW_MS)
    for producers, stays in (
        ({7: LatestBatches(0, ())}, True),
        ({7: LatestBatches(1, ())}, False),
        ({7: LatestBatches(0, (12,))}, False),
        ({}, False),
    ):
        at_work = judge(producers)
        assert at_work.judge(marker, MarkerKind.COMMIT).drops_records
        assert (20 in at_work.kept) == stays
