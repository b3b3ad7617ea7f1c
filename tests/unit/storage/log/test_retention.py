import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.log.retention import (
    OFFSET_DELTA_MAX,
    RollRules,
    RollState,
    SegmentSummary,
    below_start,
    by_size,
    expired_by_time,
    flush_due,
    should_roll,
)

HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS


def log_of(*segments: tuple[int, int]) -> list[SegmentSummary]:
    """Segments of ten offsets each, by size and largest timestamp; the last one is active."""
    return [
        SegmentSummary(10 * index, 10 * index + 10, size, timestamp, index == len(segments) - 1)
        for index, (size, timestamp) in enumerate(segments)
    ]


# Rolling

RULES = RollRules(segment_bytes=1000, segment_ms=HOUR_MS, index_bytes=240)
ACTIVE = RollState(
    base_offset=100,
    size_bytes=500,
    first_timestamp_ms=NOW_MS,
    created_ms=NOW_MS,
    offset_index_entries=3,
    time_index_entries=3,
)


def rolls(active: RollState, **batch: int) -> bool:
    fitting = {
        "batch_bytes": 100,
        "batch_last_offset": 150,
        "batch_max_timestamp_ms": NOW_MS,
        "now_ms": NOW_MS,
    }
    return should_roll(active, RULES, **fitting | batch)


def test_a_batch_that_fits_goes_to_the_active_segment() -> None:
    assert not rolls(ACTIVE)


def test_a_segment_rolls_before_it_grows_past_its_size() -> None:
    assert not rolls(ACTIVE, batch_bytes=500)
    assert rolls(ACTIVE, batch_bytes=501)


def test_an_empty_segment_takes_a_batch_of_any_size() -> None:
    empty = ACTIVE._replace(size_bytes=0, first_timestamp_ms=-1, created_ms=0)
    assert not rolls(empty, batch_bytes=5000)


def test_message_time_rolls_a_segment_and_the_clock_does_not() -> None:
    assert not rolls(ACTIVE, batch_max_timestamp_ms=NOW_MS + HOUR_MS)
    assert rolls(ACTIVE, batch_max_timestamp_ms=NOW_MS + HOUR_MS + 1)
    assert not rolls(ACTIVE, now_ms=NOW_MS + 50 * HOUR_MS)


def test_a_marker_of_today_after_records_of_2023_rolls_at_once() -> None:
    old = ACTIVE._replace(first_timestamp_ms=1_700_000_000_002)
    assert rolls(old, batch_max_timestamp_ms=1_794_780_865_910)


def test_without_message_time_the_clock_rolls_a_segment() -> None:
    timeless = ACTIVE._replace(first_timestamp_ms=-1)
    assert not rolls(timeless, batch_max_timestamp_ms=-1, now_ms=NOW_MS + HOUR_MS)
    assert rolls(timeless, batch_max_timestamp_ms=-1, now_ms=NOW_MS + HOUR_MS + 1)


def test_a_full_index_rolls_a_segment() -> None:
    assert not rolls(ACTIVE._replace(offset_index_entries=29))
    assert rolls(ACTIVE._replace(offset_index_entries=30))


def test_the_time_index_keeps_a_place_for_its_closing_entry() -> None:
    assert not rolls(ACTIVE._replace(time_index_entries=18))
    assert rolls(ACTIVE._replace(time_index_entries=19))


@pytest.mark.parametrize("size_bytes", [0, 500])
def test_an_offset_that_no_index_entry_can_hold_rolls_even_an_empty_segment(
    size_bytes: int,
) -> None:
    active = ACTIVE._replace(size_bytes=size_bytes)
    assert not rolls(active, batch_last_offset=100 + OFFSET_DELTA_MAX)
    assert rolls(active, batch_last_offset=101 + OFFSET_DELTA_MAX)


# Deleting by time


def expired(
    segments: list[SegmentSummary], retention_ms: int = HOUR_MS, watermark: int = 99
) -> int:
    return expired_by_time(
        segments, now_ms=NOW_MS, retention_ms=retention_ms, high_watermark=watermark
    )


def test_segments_go_once_their_largest_timestamp_is_too_old() -> None:
    kept_for_an_hour = NOW_MS - HOUR_MS
    segments = log_of((5, kept_for_an_hour - 1), (5, kept_for_an_hour), (5, NOW_MS))
    assert expired(segments) == 1


def test_an_old_segment_behind_a_young_one_stays() -> None:
    assert expired(log_of((5, NOW_MS), (5, 0), (5, NOW_MS))) == 0


def test_the_active_segment_stays_however_old() -> None:
    assert expired(log_of((5, 0), (5, 0))) == 1
    assert expired(log_of((5, 0))) == 0


def test_what_is_not_replicated_stays_however_old() -> None:
    segments = log_of((5, 0), (5, 0), (5, 0))
    assert expired(segments, watermark=20) == 2
    assert expired(segments, watermark=19) == 1
    assert expired(segments, watermark=9) == 0


def test_records_of_the_future_stay() -> None:
    assert expired(log_of((5, NOW_MS + HOUR_MS), (5, 0))) == 0


def test_records_without_a_timestamp_do_not_age() -> None:
    assert expired(log_of((5, -1), (5, NOW_MS))) == 0


def test_an_emptied_segment_holds_nobody_up() -> None:
    assert expired(log_of((0, -1), (5, 0), (5, NOW_MS))) == 2


def test_without_a_bound_on_time_all_stay() -> None:
    assert expired(log_of((5, 0), (5, 0)), retention_ms=-1) == 0


def test_a_retention_of_zero_drops_all_but_the_active_segment() -> None:
    assert expired(log_of((5, NOW_MS - 1), (5, NOW_MS - 1), (5, NOW_MS)), retention_ms=0) == 2


# Deleting by size


@pytest.mark.parametrize(
    ("retention_bytes", "dropped"), [(-1, 0), (100, 0), (60, 0), (50, 1), (31, 1), (30, 2), (0, 3)]
)
def test_a_segment_goes_only_if_enough_is_left_without_it(
    retention_bytes: int, dropped: int
) -> None:
    segments = log_of((10, 0), (20, 0), (20, 0), (10, 0))
    found = by_size(segments, retention_bytes=retention_bytes, high_watermark=99)
    assert found == dropped


def test_size_does_not_drop_what_is_not_replicated() -> None:
    segments = log_of((10, 0), (20, 0), (20, 0))
    assert by_size(segments, retention_bytes=0, high_watermark=15) == 1


# Deleting below the log's start


@pytest.mark.parametrize(("start", "dropped"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (30, 2)])
def test_segments_wholly_below_the_start_go(start: int, dropped: int) -> None:
    segments = log_of((10, 0), (10, 0), (10, 0))
    assert below_start(segments, log_start_offset=start) == dropped


summaries = st.lists(
    st.tuples(st.integers(0, 30), st.integers(-1, 2 * NOW_MS)), min_size=1, max_size=8
).map(lambda segments: log_of(*segments))


@settings(derandomize=True, deadline=None)
@given(summaries, st.integers(-1, 100), st.integers(-1, NOW_MS), st.integers(0, 90))
def test_retention_never_touches_the_active_segment_or_the_unreplicated(
    segments: list[SegmentSummary], retention_bytes: int, retention_ms: int, watermark: int
) -> None:
    for dropped in (
        expired(segments, retention_ms, watermark),
        by_size(segments, retention_bytes=retention_bytes, high_watermark=watermark),
    ):
        gone = segments[:dropped]
        assert not any(segment.is_active for segment in gone)
        assert all(segment.end_offset <= watermark for segment in gone)
    kept = segments[by_size(segments, retention_bytes=retention_bytes, high_watermark=watermark) :]
    total = sum(segment.size_bytes for segment in segments)
    assert sum(segment.size_bytes for segment in kept) >= min(total, retention_bytes)


# Flushing


@pytest.mark.parametrize(
    ("unflushed", "waited_ms", "due"),
    [(0, 10_000, False), (1, 999, False), (1, 1_000, True), (99, 0, False), (100, 0, True)],
)
def test_a_flush_is_due_by_count_or_by_time(unflushed: int, waited_ms: int, due: bool) -> None:
    assert flush_due(unflushed, NOW_MS, NOW_MS + waited_ms, 100, 1_000) is due
