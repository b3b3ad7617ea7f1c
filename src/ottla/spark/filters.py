"""Filter pushdown: conditions of a query that reduce the records fetched. Does no I/O."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from ottla.client.arrow.spans import Span
from ottla.protocol.primitives import OFFSET_MAX
from ottla.protocol.topic_partition import TopicPartition

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class IntRange:
    """The integers from `first` (inclusive) to `end` (exclusive)."""

    first: int = 0
    end: int = OFFSET_MAX

    def intersection(self, other: "IntRange") -> "IntRange":
        return IntRange(max(self.first, other.first), min(self.end, other.end))


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """The partitions and offsets that a query can match."""

    topics: frozenset[str] | None = None
    partitions: IntRange = IntRange()
    chosen_partitions: frozenset[int] | None = None
    offsets: IntRange = IntRange()
    # Reading starts at the first record at or after this time. There is no upper bound: a later
    # record may have an earlier timestamp.
    since_ms: int | None = None

    def includes(self, partition: TopicPartition) -> bool:
        return (
            (self.topics is None or partition.topic in self.topics)
            and self.partitions.first <= partition.partition < self.partitions.end
            and (self.chosen_partitions is None or partition.partition in self.chosen_partitions)
        )


def push_filters(filters: Sequence[Filter]) -> tuple[PushedFilters, list[Filter]]:
    """All filters combined, and those that Spark must still apply to each row."""
    pushed = PushedFilters()
    left: list[Filter] = []
    for each in filters:
        column: tuple[str, ...] = getattr(each, "attribute", ())
        rule = _RULES.get(column)
        pushed_more = rule(pushed, each) if rule else None
        pushed = pushed_more or pushed
        # A timestamp bounds the offsets, but does not filter every record.
        if pushed_more is None or column == ("timestamp",):
            left.append(each)
    return pushed, left


def filter_spans(
    spans: Iterable[Span], pushed: PushedFilters, firsts: Mapping[TopicPartition, int | None]
) -> list[Span]:
    """The parts of the spans that match. `firsts` are the offsets of `since_ms` by partition, None
    where no record is that late."""
    seen = []
    for span in spans:
        first = firsts.get(span.partition, 0)
        if first is None or not pushed.includes(span.partition):
            continue
        start = max(span.start, pushed.offsets.first, first)
        end = min(span.end, pushed.offsets.end)
        if start < end:
            seen.append(Span(span.partition, start, end))
    return seen


def _by_topic(pushed: PushedFilters, condition: Filter) -> PushedFilters | None:
    if isinstance(condition, EqualTo):
        topics = frozenset({condition.value})
    elif isinstance(condition, In):
        topics = frozenset(condition.value)
    else:
        return None
    return replace(pushed, topics=_intersection(pushed.topics, topics))


def _by_partition(pushed: PushedFilters, condition: Filter) -> PushedFilters | None:
    if isinstance(condition, In):
        chosen = frozenset(condition.value)
        return replace(pushed, chosen_partitions=_intersection(pushed.chosen_partitions, chosen))
    found = _int_range(condition)
    if found is None:
        return None
    return replace(pushed, partitions=pushed.partitions.intersection(found))


def _by_offset(pushed: PushedFilters, condition: Filter) -> PushedFilters | None:
    found = _int_range(condition)
    if found is None:
        return None
    return replace(pushed, offsets=pushed.offsets.intersection(found))


def _by_timestamp(pushed: PushedFilters, condition: Filter) -> PushedFilters | None:
    if not isinstance(condition, EqualTo | GreaterThan | GreaterThanOrEqual):
        return None
    if not isinstance(condition.value, datetime) or condition.value.tzinfo is None:
        return None
    whole_ms, rest = divmod(condition.value - _EPOCH, timedelta(milliseconds=1))
    # Record timestamps are in whole ms.
    is_next = rest > timedelta(0) or isinstance(condition, GreaterThan)
    since_ms = max(whole_ms + is_next, 0)
    return replace(pushed, since_ms=max(since_ms, pushed.since_ms or 0))


_RULES: Mapping[tuple[str, ...], Callable[[PushedFilters, Filter], PushedFilters | None]] = {
    ("topic",): _by_topic,
    ("partition",): _by_partition,
    ("offset",): _by_offset,
    ("timestamp",): _by_timestamp,
}


def _int_range(condition: Filter) -> IntRange | None:
    number = getattr(condition, "value", None)
    if not isinstance(number, int):
        return None
    match condition:
        case EqualTo():
            return IntRange(number, number + 1)
        case GreaterThan():
            return IntRange(first=number + 1)
        case GreaterThanOrEqual():
            return IntRange(first=number)
        case LessThan():
            return IntRange(end=number)
        case LessThanOrEqual():
            return IntRange(end=number + 1)
    return None


def _intersection(earlier: frozenset[T] | None, later: frozenset[T]) -> frozenset[T]:
    return later if earlier is None else earlier & later
