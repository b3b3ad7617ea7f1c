"""Which offsets a batch reads, and in which pieces. Decides from offsets alone and does no I/O.

The same offsets and options always give the same spans: a batch that is run again after a failure
is cut as it was the first time, which is what a sink that counts its tasks relies on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor

from ottla.client.arrow.spans import Span
from ottla.protocol.primitives import OFFSET_MAX
from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.offsets import Offsets

# Each span is a task: more of them than this is a mistake in an option.
SPANS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Splitting:
    """Into how many spans a batch is cut at least, and how many offsets one has at most."""

    min_partitions: int | None = None
    max_records: int | None = None


def spans_between(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> list[Span]:
    """What lies between two offsets of a query.

    A partition that is new at the end is read from offset 0: where it begins by now, a second run
    could see otherwise. One whose end is before its start was set back: nothing of it is read, the
    next batch goes on from there.
    """
    return [
        Span(partition, start.get(partition, 0), until)
        for partition, until in sorted(end.items())
        if until > start.get(partition, 0)
    ]


def split(spans: Iterable[Span], splitting: Splitting) -> list[Span]:
    """The same offsets in more pieces of about equal size, as the options ask for."""
    whole = list(spans)
    total = sum(span.end - span.start for span in whole)
    pieces: list[Span] = []
    for span in whole:
        size = span.end - span.start
        count = 1
        if splitting.max_records:
            count = -(-size // splitting.max_records)
        if splitting.min_partitions and splitting.min_partitions > len(whole):
            count = max(count, ceil(splitting.min_partitions * size / total))
        count = min(count, size, max(1, SPANS_MAX - len(pieces)))
        pieces += _cut(span, count)
    return pieces


def _cut(span: Span, count: int) -> list[Span]:
    size = span.end - span.start
    edges = [span.start + size * number // count for number in range(count + 1)]
    return [Span(span.partition, first, until) for first, until in pairwise(edges)]


def shared(
    start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], rows_max: int
) -> Offsets:
    """How far each partition gets when about `rows_max` offsets are read of all together.

    Each has a share by its lag, and none that lags has nothing, as in Spark's Kafka connector.
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
