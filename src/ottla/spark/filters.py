"""Conditions of a query that narrow what is fetched. Decides; does no I/O."""

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
class Between:
    """Whole numbers from `first` to before `end`."""

    first: int = 0
    end: int = OFFSET_MAX

    def and_also(self, other: "Between") -> "Between":
        return Between(max(self.first, other.first), min(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a query can see at all."""

    topics: frozenset[str] | None = None
    partitions: Between = Between()
    chosen_partitions: frozenset[int] | None = None
    offsets: Between = Between()
    # Records before the first that is not before this are not seen. There is no such end: a later
    # record may have an earlier time.
    since_ms: int | None = None

    def sees(self, partition: TopicPartition) -> bool:
        return (
            (self.topics is None or partition.topic in self.topics)
            and self.partitions.first <= partition.partition < self.partitions.end
            and (self.chosen_partitions is None or partition.partition in self.chosen_partitions)
        )


def narrow(filters: Sequence[Filter]) -> tuple[Narrowing, list[Filter]]:
    """What all filters together leave, and which of them Spark must still apply to each row."""
    narrowing = Narrowing()
    left: list[Filter] = []
    for each in filters:
        column: tuple[str, ...] = getattr(each, "attribute", ())
        rule = _RULES.get(column)
        narrower = rule(narrowing, each) if rule else None
        narrowing = narrower or narrowing
        # A time narrows, but not to the record.
        if narrower is None or column == ("timestamp",):
            left.append(each)
    return narrowing, left


def narrowed(
    spans: Iterable[Span], narrowing: Narrowing, firsts: Mapping[TopicPartition, int | None]
) -> list[Span]:
    """What of the spans can be seen; `firsts` are where `since_ms` begins, None if nowhere."""
    seen = []
    for span in spans:
        first = firsts.get(span.partition, 0)
        if first is None or not narrowing.sees(span.partition):
            continue
        start = max(span.start, narrowing.offsets.first, first)
        end = min(span.end, narrowing.offsets.end)
        if start < end:
            seen.append(Span(span.partition, start, end))
    return seen


def _by_topic(narrowing: Narrowing, condition: Filter) -> Narrowing | None:
    if isinstance(condition, EqualTo):
        topics = frozenset({condition.value})
    elif isinstance(condition, In):
        topics = frozenset(condition.value)
    else:
        return None
    return replace(narrowing, topics=_both(narrowing.topics, topics))


def _by_partition(narrowing: Narrowing, condition: Filter) -> Narrowing | None:
    if isinstance(condition, In):
        chosen = frozenset(condition.value)
        return replace(narrowing, chosen_partitions=_both(narrowing.chosen_partitions, chosen))
    found = _between(condition)
    if found is None:
        return None
    return replace(narrowing, partitions=narrowing.partitions.and_also(found))


def _by_offset(narrowing: Narrowing, condition: Filter) -> Narrowing | None:
    found = _between(condition)
    if found is None:
        return None
    return replace(narrowing, offsets=narrowing.offsets.and_also(found))


def _by_timestamp(narrowing: Narrowing, condition: Filter) -> Narrowing | None:
    if not isinstance(condition, EqualTo | GreaterThan | GreaterThanOrEqual):
        return None
    if not isinstance(condition.value, datetime) or condition.value.tzinfo is None:
        return None
    whole_ms, rest = divmod(condition.value - _EPOCH, timedelta(milliseconds=1))
    # A record's time is in whole ms.
    is_next = rest > timedelta(0) or isinstance(condition, GreaterThan)
    since_ms = max(whole_ms + is_next, 0)
    return replace(narrowing, since_ms=max(since_ms, narrowing.since_ms or 0))


_RULES: Mapping[tuple[str, ...], Callable[[Narrowing, Filter], Narrowing | None]] = {
    ("topic",): _by_topic,
    ("partition",): _by_partition,
    ("offset",): _by_offset,
    ("timestamp",): _by_timestamp,
}


def _between(condition: Filter) -> Between | None:
    number = getattr(condition, "value", None)
    if not isinstance(number, int):
        return None
    match condition:
        case EqualTo():
            return Between(number, number + 1)
        case GreaterThan():
            return Between(first=number + 1)
        case GreaterThanOrEqual():
            return Between(first=number)
        case LessThan():
            return Between(end=number)
        case LessThanOrEqual():
            return Between(end=number + 1)
    return None


def _both(earlier: frozenset[T] | None, later: frozenset[T]) -> frozenset[T]:
    return later if earlier is None else earlier & later
