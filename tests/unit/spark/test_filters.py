"""Filter pushdown bounds the fetch, and never drops a row that matches."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from ottla.client.arrow.spans import Span
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.filters import PushedFilters, filter_spans, push_filters

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
SPANS = [Span(A0, 10, 20), Span(A1, 0, 5), Span(B0, 0, 100)]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_767_268_800_000


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([], SPANS),
        ([EqualTo(("topic",), "a")], SPANS[:2]),
        ([In(("topic",), ("a", "b")), In(("topic",), ("b", "c"))], SPANS[2:]),
        ([EqualTo(("partition",), 1)], [SPANS[1]]),
        ([GreaterThan(("partition",), 0)], [SPANS[1]]),
        ([In(("partition",), (0, 7))], [SPANS[0], SPANS[2]]),
        ([EqualTo(("offset",), 12)], [Span(A0, 12, 13), Span(B0, 12, 13)]),
        ([GreaterThanOrEqual(("offset",), 15)], [Span(A0, 15, 20), Span(B0, 15, 100)]),
        ([GreaterThan(("offset",), 15)], [Span(A0, 16, 20), Span(B0, 16, 100)]),
        ([LessThan(("offset",), 3)], [Span(A1, 0, 3), Span(B0, 0, 3)]),
        ([LessThanOrEqual(("offset",), 3)], [Span(A1, 0, 4), Span(B0, 0, 4)]),
        ([LessThan(("offset",), 5), GreaterThan(("offset",), 5)], []),
        ([GreaterThan(("offset",), 2**62)], []),
    ],
)
def test_conditions_on_topic_partition_and_offset_bound_the_fetch(
    filters: list[Filter], left: list[Span]
) -> None:
    narrowing, still_to_apply = push_filters(filters)
    assert filter_spans(SPANS, narrowing, {}) == left
    assert still_to_apply == []


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        Not(EqualTo(("partition",), 1)),
        IsNotNull(("offset",)),
        In(("offset",), (1, 2)),
        LessThan(("timestamp",), NOON),
        GreaterThan(("timestamp",), NOON.replace(tzinfo=None)),
        EqualTo(("offset",), None),
        EqualTo(("offset",), 1.5),
    ],
)
def test_other_conditions_are_left_to_spark(condition: Filter) -> None:
    assert push_filters([condition]) == (PushedFilters(), [condition])


@pytest.mark.parametrize(
    ("condition", "since_ms"),
    [
        (EqualTo(("timestamp",), NOON), NOON_MS),
        (GreaterThanOrEqual(("timestamp",), NOON), NOON_MS),
        (GreaterThan(("timestamp",), NOON), NOON_MS + 1),
        (GreaterThanOrEqual(("timestamp",), NOON + timedelta(microseconds=1)), NOON_MS + 1),
        (GreaterThan(("timestamp",), NOON + timedelta(microseconds=1)), NOON_MS + 1),
        (GreaterThan(("timestamp",), datetime(1969, 1, 1, tzinfo=UTC)), 0),
    ],
)
def test_a_time_says_where_to_begin_and_is_still_applied(condition: Filter, since_ms: int) -> None:
    narrowing, still_to_apply = push_filters([condition])
    assert narrowing.since_ms == since_ms
    assert still_to_apply == [condition]


def test_the_latest_of_several_times_counts() -> None:
    conditions: list[Filter] = [
        GreaterThanOrEqual(("timestamp",), NOON),
        GreaterThanOrEqual(("timestamp",), NOON - timedelta(days=1)),
    ]
    assert push_filters(conditions)[0].since_ms == NOON_MS


def test_partitions_without_a_record_that_late_are_not_read() -> None:
    firsts = {A0: 12, A1: None, B0: 0}
    assert filter_spans(SPANS, PushedFilters(since_ms=1), firsts) == [Span(A0, 12, 20), SPANS[2]]
