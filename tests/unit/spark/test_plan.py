"""The spans of a batch follow from its offsets."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.arrow.spans import Span
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.plan import SPANS_MAX, SplitLimits, share_by_lag, spans_between, split

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 9))


def test_spans_lie_between_the_offsets_in_the_order_of_partitions() -> None:
    assert spans_between({B0: 1, A0: 5}, {B0: 3, A0: 9}) == [Span(A0, 5, 9), Span(B0, 1, 3)]


def test_a_partition_without_new_records_has_no_span() -> None:
    assert spans_between({A0: 5}, {A0: 5}) == []


def test_a_partition_that_was_added_is_read_from_its_first_record() -> None:
    assert spans_between({A0: 5}, {A0: 5, A1: 3}) == [Span(A1, 0, 3)]


def test_a_partition_that_is_gone_or_was_set_back_is_not_read() -> None:
    assert spans_between({A0: 5, A1: 7}, {A1: 0}) == []


def test_a_batch_is_cut_by_the_size_of_its_parts() -> None:
    pieces = split([Span(A0, 0, 300), Span(A1, 0, 100)], SplitLimits(min_partitions=4))
    assert pieces == [
        Span(A0, 0, 100),
        Span(A0, 100, 200),
        Span(A0, 200, 300),
        Span(A1, 0, 100),
    ]


def test_no_piece_exceeds_the_limit() -> None:
    pieces = split([Span(A0, 7, 107)], SplitLimits(max_records=30))
    assert [piece.end - piece.start for piece in pieces] == [25, 25, 25, 25]


def test_a_batch_that_has_enough_spans_is_left_as_it_is() -> None:
    spans = [Span(A0, 0, 1000), Span(A1, 0, 1)]
    assert split(spans, SplitLimits(min_partitions=2)) == spans
    assert split(spans, SplitLimits()) == spans


def test_a_slip_in_an_option_does_not_make_a_million_tasks() -> None:
    assert len(split([Span(A0, 0, 10**9)], SplitLimits(max_records=1))) == SPANS_MAX


@given(
    st.dictionaries(PARTITIONS, st.integers(1, 10**6), min_size=1, max_size=8),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(10**4, 10**6),
)
@settings(derandomize=True, deadline=None)
def test_pieces_hold_every_offset_once(
    sizes: dict[TopicPartition, int], min_partitions: int | None, max_records: int | None
) -> None:
    spans = spans_between({}, sizes)
    pieces = split(spans, SplitLimits(min_partitions, max_records))
    for partition, size in sizes.items():
        edges = [(piece.start, piece.end) for piece in pieces if piece.partition == partition]
        assert edges[0][0] == 0
        assert edges[-1][1] == size
        assert all(one[1] == next_one[0] for one, next_one in pairwise(edges))
        assert all(start < end for start, end in edges)
    if max_records:
        assert all(piece.end - piece.start <= max_records for piece in pieces)
    assert len(pieces) >= min(min_partitions or 1, sum(sizes.values()))


def test_a_limit_is_shared_by_lag() -> None:
    assert share_by_lag({A0: 0, A1: 50}, {A0: 900, A1: 150}, 100) == {A0: 90, A1: 60}


def test_a_partition_that_lags_a_little_is_not_starved_by_one_that_lags_much() -> None:
    assert share_by_lag({A0: 0, A1: 0}, {A0: 10**9, A1: 1}, 10) == {A0: 9, A1: 1}


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    assert share_by_lag({A0: 0, A1: 4}, {A0: 3, A1: 4}, 3) == {A0: 3, A1: 4}


@given(
    st.dictionaries(
        PARTITIONS, st.tuples(st.integers(0, 2**60), st.integers(0, 2**60)), max_size=8
    ),
    st.integers(1, 2**60),
)
@settings(derandomize=True, deadline=None)
def test_a_share_never_goes_back_nor_too_far_and_always_gets_on(
    lags: dict[TopicPartition, tuple[int, int]], rows_max: int
) -> None:
    start = {partition: begin for partition, (begin, _) in lags.items()}
    latest = {partition: begin + lag for partition, (begin, lag) in lags.items()}
    ends = share_by_lag(start, latest, rows_max)
    for partition, (_, lag) in lags.items():
        assert start[partition] <= ends[partition] <= latest[partition]
        assert lag == 0 or ends[partition] > start[partition]
