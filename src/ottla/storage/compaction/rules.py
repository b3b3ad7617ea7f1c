"""What compaction may touch, when it is due, and what it leaves of a batch: decisions, no I/O.

The rules are Kafka's. A log is clean up to some offset and dirty from there on. Of the dirty part
as much is read as there is room for keys; then every segment from the log's start to there is
written anew without what a later record of its key replaced.

- Offsets stay: what is left of a batch keeps the batch's range.
- Never past the last stable offset, never the active segment, never what is not flushed.
- A tombstone, and the marker of a transaction of which nothing is left, stay for
  `delete.retention.ms` after they were first met: their batch then carries its delete horizon.
- Records of aborted transactions go.
- Batches that a live producer could repeat stay, empty: its state can be told from the log alone.
- The last batch of an output stays, empty if need be: a log then has no hole between segments,
  and an output's end says what it was made from (`swaps`).
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
    """Kafka's settings of a topic, by its names and defaults."""

    compacts: bool = False
    delete_retention_ms: int = 86_400_000
    min_lag_ms: int = 0
    max_lag_ms: int = _NEVER_MS
    min_dirty_ratio: float = 0.5


# --- what is dirty, and when that is too much --------------------------------------------------


class Cleanable(NamedTuple):
    """What a compaction of a log could do now."""

    first_dirty_offset: int
    # Exclusive: where a segment begins that must be left alone.
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    # For how long the oldest dirty record has been due by `max.compaction.lag.ms`.
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
    """What lies below `end_offset_max`, which is stable and flushed, and how dirty it is."""
    log_end_offset = segments[-1].end_offset
    first_dirty = max(cleaned_offset, start_offset)
    if first_dirty > log_end_offset:
        # Whoever wrote it down knew another log.
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
    """For how long the oldest dirty segment has been due, by the times of their first batches."""
    times = [time_ms for time_ms in first_timestamps_ms if time_ms > 0]
    return max(0, now_ms - rules.max_lag_ms - min(times)) if times else 0


def is_due(found: Cleanable, rules: CompactionRules) -> bool:
    """Whether there is enough to do, or something that has waited for too long."""
    if found.dirty_bytes == 0:
        return False
    return found.overdue_ms > 0 or found.dirty_ratio > rules.min_dirty_ratio


# --- which segments become one -----------------------------------------------------------------


class Source(NamedTuple):
    """A segment that is to be read, as far as grouping must know it."""

    base_offset: int
    # Where the next one begins.
    end_offset: int
    size_bytes: int
    index_bytes: int


def group_segments(
    sources: Sequence[Source], *, segment_bytes: int, index_bytes_max: int
) -> list[list[Source]]:
    """Neighbours that together fit one segment, its index, and the offsets that it can hold."""
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


# --- what is left of a batch -------------------------------------------------------------------


class LatestBatches(NamedTuple):
    """What a log must go on telling of a producer that is alive."""

    epoch: int
    last_offsets: tuple[int, ...]

    @classmethod
    def of(cls, entry: ProducerEntry) -> "LatestBatches":
        return cls(entry.epoch, tuple(span.last_offset for span in entry.batches))

    def are_told_by(self, marker: BatchHeader) -> bool:
        """Without any batch it is the marker with the producer's epoch that tells of it."""
        return not self.last_offsets and marker.producer_epoch == self.epoch


class Judgement(NamedTuple):
    """What becomes of a batch of a transaction, or of a marker."""

    # All of its records go; else each is looked at by its key, or if it is a marker, it stays.
    drops_records: bool
    # A marker that may go once its delete horizon has passed: it gets one if it has none.
    is_idle_marker: bool = False
    # What the new segment's index must know of.
    aborted: AbortedTransaction | None = None


class BatchJudge:
    """Judges the batches of transactions, which it must be shown in the order of the log.

    `kept` are the last offsets of batches that stay even if nothing is left in them.
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
        # Producers of whose present transaction a batch is still in the log.
        self._seen: set[int] = set()
        self.kept: set[int] = set()
        for latest in producers.values():
            self.kept.update(latest.last_offsets)

    def keep(self, last_offset: int) -> None:
        """The batch that ends there stays."""
        self.kept.add(last_offset)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether these are records of a transaction that was aborted. Changes nothing."""
        return (
            header.is_transactional
            and not header.is_control
            and self._aborted.find(header.producer_id, header.base_offset) is not None
        )

    def judge(self, header: BatchHeader, marker: MarkerKind | None) -> Judgement:
        """`marker` is what a control batch says, None if it is empty."""
        if header.is_control:
            return self._judge_marker(header, marker)
        if header.is_transactional:
            self._seen.add(header.producer_id)
        return Judgement(self.is_aborted(header))

    def _judge_marker(self, header: BatchHeader, marker: MarkerKind | None) -> Judgement:
        """A marker stays as long as there is something of its transaction, and then a while."""
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
    """By producer, each of which has one transaction at a time."""

    __slots__ = ("_by_producer",)

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = {}
        for each in sorted(aborted, key=lambda each: each.first_offset):
            self._by_producer.setdefault(each.producer_id, []).append(each)

    def find(self, producer_id: int, offset: int) -> AbortedTransaction | None:
        """The one of this producer that was open at `offset`."""
        theirs = self._by_producer.get(producer_id)
        if theirs is None:
            return None
        index = bisect_right(theirs, offset, key=lambda each: each.first_offset)
        if index and theirs[index - 1].last_offset > offset:
            return theirs[index - 1]
        return None
