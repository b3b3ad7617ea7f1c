"""The spans of a batch, planned from offsets alone. Does no I/O.

Equal offsets and options always give equal spans: a batch that is retried after a failure is split
as it was the first time. Sinks that identify output by task rely on it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor

from ottla.client.arrow.spans import Span
from ottla.protocol.primitives import OFFSET_MAX
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.offsets import Offsets

# Each span is a task; an option that requests more is a mistake.
SPANS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """The minimum number of spans of a batch, and the maximum number of offsets per span."""

    min_partitions: int | None = None
    max_records: int | None = None


def spans_between(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> list[Span]:
    """The spans between two offsets of a query.

    A partition that only `end` has is read from offset 0: its current beginning could differ when
    the batch is retried. A partition whose end is before its start was reset: this batch reads none
    of it, and the next batch continues from there.
    """
    return [
        Span(partition, start.get(partition, 0), until)
        for partition, until in sorted(end.items())
        if until > start.get(partition, 0)
    ]


def split(spans: Iterable[Span], split_limits: SplitLimits) -> list[Span]:
    """Splits spans into pieces of about equal size within the limits."""
    whole = list(spans)
    total = sum(span.end - span.start for span in whole)
    pieces: list[Span] = []
    for span in whole:
        size = span.end - span.start
        count = 1
        if split_limits.max_records:
            count = -(-size // split_limits.max_records)
        if split_limits.min_partitions and split_limits.min_partitions > len(whole):
            count = max(count, ceil(split_limits.min_partitions * size / total))
        count = min(count, size, max(1, SPANS_MAX - len(pieces)))
        pieces += _cut(span, count)
    return pieces


def _cut(span: Span, count: int) -> list[Span]:
    size = span.end - span.start
    edges = [span.start + size * number // count for number in range(count + 1)]
    return [Span(span.partition, first, until) for first, until in pairwise(edges)]


def share_by_lag(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], rows_max: int
) -> Offsets:
    """The end offset of each partition if about `rows_max` offsets are read in total.

    Each partition gets a share by its lag, and every lagging partition at least one offset, as in
    Spark's Kafka connector.
    """
    lags = {partition: latest[partition] - start[partition] for partition in latest}
    total = sum(lags.values())
    if total <= rows_max:
        return dict(latest)
    ends = {}
    for partition, lag in lags.items():
        share = rows_max * lag / total
        taken = ceil(share) if share < 1 else floor(share)
        ends[partition] = min(latest[partition], start[partition] + taken, OFFSET_MAX)
    return ends
