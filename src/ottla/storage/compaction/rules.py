"""Decides what compaction may touch, when it is due, and which records remain. Does no I/O.

The rules are Kafka's. A log is clean up to an offset and dirty from there on. The cleaner reads as
much of the dirty part as its key map holds. Then it writes every segment from the log start offset
to there again, without the records that a later record of their key replaced.

- Offsets stay: a batch with fewer records keeps its offset range.
- Nothing beyond the last stable offset or the recovery point is touched, nor the active segment.
- A tombstone, and the marker of a transaction without records, stay for `delete.retention.ms`
  after the first compaction that meets them. Their batch carries the delete horizon.
- Records of aborted transactions are dropped.
- Batches that an active producer could repeat stay, empty: the log alone restores its state.
- The last batch of an output stays, empty if need be. So a log has no gap between segments, and
  the end of an output tells which segments it replaces (`segment_swap`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.protocol.batch import BatchHeader, MarkerKind
from ottla.storage.log.retention import OFFSET_DELTA_MAX, SegmentSummary
from ottla.storage.producers.entry import ProducerEntry
from ottla.storage.producers.state import AbortedTransaction

_NEVER_MS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRules:
    """The compaction settings of a topic, with Kafka's names and defaults."""

    compacts: bool = False
    delete_retention_ms: int = 86_400_000
    min_lag_ms: int = 0
    max_lag_ms: int = _NEVER_MS
    min_dirty_ratio: float = 0.5


# --- the dirty part, and when a compaction is due ----------------------------------------------


class Cleanable(NamedTuple):
    """The part of a log that can be compacted now."""

    first_dirty_offset: int
    # Exclusive: the base offset of the first segment that must not be touched.
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    # By how much the oldest dirty record exceeds `max.compaction.lag.ms`.
    overdue_ms: int = 0

    @property
    def dirty_ratio(self) -> float:
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0


def cleanable(
    segments: Sequence[SegmentSummary],
    rules: CompactionRules,
    *,
    cleaned_offset: int,
    start_offset: int,
    end_offset_max: int,
    now_ms: int,
) -> Cleanable:
    """The clean and dirty bytes below `end_offset_max`, which is stable and flushed."""
    log_end_offset = segments[-1].end_offset
    first_dirty = max(cleaned_offset, start_offset)
    if first_dirty > log_end_offset:
        # The checkpoint is of another log of this name.
        first_dirty = start_offset
    clean_bytes = dirty_bytes = 0
    end_offset = segments[0].base_offset
    for segment in segments:
        if segment.is_active or segment.end_offset > end_offset_max:
            break
        if segment.end_offset <= first_dirty:
            clean_bytes += segment.size_bytes
        elif _is_too_young(segment, rules, now_ms):
            break
        else:
            dirty_bytes += segment.size_bytes
        end_offset = segment.end_offset
    return Cleanable(first_dirty, end_offset, clean_bytes, dirty_bytes)


def _is_too_young(segment: SegmentSummary, rules: CompactionRules, now_ms: int) -> bool:
    return rules.min_lag_ms > 0 and segment.largest_timestamp_ms > now_ms - rules.min_lag_ms


def overdue_ms(first_timestamps_ms: Iterable[int], rules: CompactionRules, now_ms: int) -> int:
    """By how much the oldest dirty segment exceeds `max.compaction.lag.ms`."""
    times = [time_ms for time_ms in first_timestamps_ms if time_ms > 0]
    return max(0, now_ms - rules.max_lag_ms - min(times)) if times else 0


def is_due(found: Cleanable, rules: CompactionRules) -> bool:
    """Whether the dirty ratio or the lag of the oldest dirty record exceeds its limit."""
    if found.dirty_bytes == 0:
        return False
    return found.overdue_ms > 0 or found.dirty_ratio > rules.min_dirty_ratio


# --- grouping of segments ----------------------------------------------------------------------


class Source(NamedTuple):
    """A source segment, with its sizes."""

    base_offset: int
    # The base offset of the next segment.
    end_offset: int
    size_bytes: int
    index_bytes: int


def group_segments(
    sources: Sequence[Source], *, segment_bytes: int, index_bytes_max: int
) -> list[list[Source]]:
    """Groups neighbours that together fit the limits of one segment and its index."""
    groups: list[list[Source]] = []
    size_bytes = index_bytes = 0
    for source in sources:
        size_bytes += source.size_bytes
        index_bytes += source.index_bytes
        if (
            not groups
            or size_bytes > segment_bytes
            or index_bytes > index_bytes_max
            or source.end_offset - 1 - groups[-1][0].base_offset > OFFSET_DELTA_MAX
        ):
            groups.append([])
            size_bytes, index_bytes = source.size_bytes, source.index_bytes
        groups[-1].append(source)
    return groups


# --- records that remain -----------------------------------------------------------------------


class LatestBatches(NamedTuple):
    """The batches of an active producer that must stay in the log."""

    epoch: int
    last_offsets: tuple[int, ...]

    @classmethod
    def of(cls, entry: ProducerEntry) -> "LatestBatches":
        return cls(entry.epoch, tuple(span.last_offset for span in entry.batches))

    def are_told_by(self, marker: BatchHeader) -> bool:
        """Whether only this marker holds the epoch of a producer without batches."""
        return not self.last_offsets and marker.producer_epoch == self.epoch


class Judgement(NamedTuple):
    """The decision about a transactional batch or a control batch."""

    # All records are dropped. Otherwise a marker stays, and other records are judged by key.
    drops_records: bool
    # A marker that may be dropped after its delete horizon, which it gets if it has none.
    is_idle_marker: bool = False
    # An entry for the transaction index of the new segment.
    aborted: AbortedTransaction | None = None


class BatchJudge:
    """Decides about transactional and control batches, which must come in log order.

    `kept` holds the last offsets of batches that stay even if they are empty.
    """

    __slots__ = ("_aborted", "_now_ms", "_producers", "_seen", "kept")

    def __init__(
        self,
        aborted: Iterable[AbortedTransaction],
        producers: Mapping[int, LatestBatches],
        now_ms: int,
    ) -> None:
        self._aborted = AbortedTransactions(aborted)
        self._producers = producers
        self._now_ms = now_ms
        # Producers with a batch of their current transaction still in the log.
        self._seen: set[int] = set()
        self.kept: set[int] = set()
        for latest in producers.values():
            self.kept.update(latest.last_offsets)

    def keep(self, last_offset: int) -> None:
        """The batch with this last offset stays."""
        self.kept.add(last_offset)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction. Changes nothing."""
        return (
            header.is_transactional
            and not header.is_control
            and self._aborted.find(header.producer_id, header.base_offset) is not None
        )

    def judge(self, header: BatchHeader, marker: MarkerKind | None) -> Judgement:
        """`marker` is the type of a control batch; None if it is empty."""
        if header.is_control:
            return self._judge_marker(header, marker)
        if header.is_transactional:
            self._seen.add(header.producer_id)
        return Judgement(self.is_aborted(header))

    def _judge_marker(self, header: BatchHeader, marker: MarkerKind | None) -> Judgement:
        """A marker stays while its transaction has records, and then for delete.retention.ms."""
        latest = self._producers.get(header.producer_id) if header.has_producer else None
        if latest is not None and latest.are_told_by(header):
            self.keep(header.last_offset)
        if header.producer_id in self._seen:
            self._seen.discard(header.producer_id)
            aborted = None
            if marker is MarkerKind.ABORT:
                aborted = self._aborted.find(header.producer_id, header.base_offset - 1)
            return Judgement(False, aborted=aborted)
        horizon_ms = header.delete_horizon_ms
        is_over = horizon_ms is not None and horizon_ms <= self._now_ms
        return Judgement(is_over, is_idle_marker=True)


class AbortedTransactions:
    """Aborted transactions by producer. A producer has one transaction at a time."""

    __slots__ = ("_by_producer",)

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for each in sorted(aborted, key=lambda each: each.first_offset):
            self._by_producer.setdefault(each.producer_id, []).append(each)

    def find(self, producer_id: int, offset: int) -> AbortedTransaction | None:
        """The aborted transaction of this producer that was open at `offset`."""
        theirs = self._by_producer.get(producer_id)
        if theirs is None:
            return None
        index = bisect_right(theirs, offset, key=lambda each: each.first_offset)
        if index and theirs[index - 1].last_offset > offset:
            return theirs[index - 1]
        return None
