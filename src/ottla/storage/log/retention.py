"""Decides when a segment rolls, when it expires, and when a flush is due. Does no I/O.

Record timestamps decide, never the times of files: a copied or restored directory ages as the
original would.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

# An index entry holds its offset relative to the segment's base in 31 bits.
OFFSET_DELTA_MAX = 2**31 - 1
OFFSET_INDEX_ENTRY_BYTES = 8
TIME_INDEX_ENTRY_BYTES = 12


class SegmentSummary(NamedTuple):
    """A segment as retention and compaction see it."""

    base_offset: int
    # The base offset of the next segment; the log end offset for the active one.
    end_offset: int
    size_bytes: int
    # -1 if no record has a timestamp.
    largest_timestamp_ms: int
    is_active: bool


# --- rolling ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RollRules:
    """Kafka's `segment.bytes`, `segment.ms` and `segment.index.bytes`."""

    segment_bytes: int
    segment_ms: int
    index_bytes: int


class RollState(NamedTuple):
    """The active segment as the roll decision sees it."""

    base_offset: int
    size_bytes: int
    # The max timestamp of its first batch; -1 if it has none.
    first_timestamp_ms: int
    # By the steady clock: setting the wall clock does not change the age of a segment.
    created_ms: int
    offset_index_entries: int
    time_index_entries: int


def should_roll(
    active: RollState,
    rules: RollRules,
    *,
    batch_bytes: int,
    batch_last_offset: int,
    batch_max_timestamp_ms: int,
    now_ms: int,
) -> bool:
    """Whether the active segment rolls before this batch.

    An empty segment accepts any batch whose offsets it can index. `now_ms` is steady time.
    """
    if batch_last_offset - active.base_offset > OFFSET_DELTA_MAX:
        return True
    if active.size_bytes == 0:
        return False
    return (
        active.size_bytes + batch_bytes > rules.segment_bytes
        or _age_ms(active, batch_max_timestamp_ms, now_ms) > rules.segment_ms
        or active.offset_index_entries >= rules.index_bytes // OFFSET_INDEX_ENTRY_BYTES
        # The time index reserves an entry for the seal.
        or active.time_index_entries >= rules.index_bytes // TIME_INDEX_ENTRY_BYTES - 1
    )


class Room(NamedTuple):
    """Limits within which the active segment accepts a batch without a roll."""

    # The limits for the end position, the last offset and the max timestamp of a batch.
    size_bytes: int
    last_offset: int
    timestamp_ms: int

    def takes(self, size_bytes: int, last_offset: int, timestamp_ms: int) -> bool:
        return (
            size_bytes <= self.size_bytes
            and last_offset <= self.last_offset
            and timestamp_ms <= self.timestamp_ms
        )


# No batch is within these limits: `should_roll` decides.
NO_ROOM = Room(-1, -1, -1)
# Below every timestamp, and below that of a batch without one (-1).
_NO_TIME_MS = -2


def room(active: RollState, rules: RollRules, index_interval_bytes: int) -> Room:
    """The limits for the next batches, so that most need no `should_roll`."""
    if active.size_bytes == 0:
        return NO_ROOM  # the age of the segment counts from its first batch
    entries = min(
        rules.index_bytes // OFFSET_INDEX_ENTRY_BYTES - active.offset_index_entries,
        rules.index_bytes // TIME_INDEX_ENTRY_BYTES - 1 - active.time_index_entries,
    )
    # An index entry is added only after more than index.interval.bytes.
    indexed_bytes = max(0, entries - 1) * (index_interval_bytes + 1)
    has_time = active.first_timestamp_ms >= 0
    return Room(
        size_bytes=min(rules.segment_bytes, active.size_bytes + indexed_bytes),
        last_offset=active.base_offset + OFFSET_DELTA_MAX,
        # Without a timestamp the age is that of the steady clock, so every batch is checked.
        timestamp_ms=active.first_timestamp_ms + rules.segment_ms if has_time else _NO_TIME_MS,
    )


def _age_ms(active: RollState, batch_max_timestamp_ms: int, now_ms: int) -> int:
    """The age by record timestamps; by the steady clock if the first batch has none."""
    if active.first_timestamp_ms >= 0:
        return batch_max_timestamp_ms - active.first_timestamp_ms
    return now_ms - active.created_ms


# --- deleting ---------------------------------------------------------------------------------


def expired_by_time(
    segments: Sequence[SegmentSummary], *, now_ms: int, retention_ms: int, high_watermark: int
) -> int:
    """The number of segments, from the front, that are older than `retention_ms` (-1: no limit).

    Records without a timestamp do not expire: only size and `DeleteRecords` remove them.
    """
    if retention_ms < 0:
        return 0
    return _count_while(
        lambda segment: segment.size_bytes == 0 or _is_expired(segment, now_ms, retention_ms),
        _deletable(segments, high_watermark),
    )


def active_has_expired(
    segments: Sequence[SegmentSummary], *, now_ms: int, retention_ms: int, high_watermark: int
) -> bool:
    """Whether all records of the active segment have expired, so that it should roll."""
    active = segments[-1]
    return (
        retention_ms >= 0
        and active.size_bytes > 0
        and active.end_offset <= high_watermark
        and _is_expired(active, now_ms, retention_ms)
    )


def _is_expired(segment: SegmentSummary, now_ms: int, retention_ms: int) -> bool:
    largest_ms = segment.largest_timestamp_ms
    return largest_ms >= 0 and now_ms - largest_ms > retention_ms


def by_size(
    segments: Sequence[SegmentSummary], *, retention_bytes: int, high_watermark: int
) -> int:
    """The number of segments, from the front, beyond `retention_bytes` (-1: no limit)."""
    if retention_bytes < 0:
        return 0
    excess_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes

    def is_excess(segment: SegmentSummary) -> bool:
        nonlocal excess_bytes
        excess_bytes -= segment.size_bytes
        return excess_bytes >= 0

    return _count_while(is_excess, _deletable(segments, high_watermark))


def below_start(segments: Sequence[SegmentSummary], *, log_start_offset: int) -> int:
    """The number of segments, from the front, wholly below the log start offset."""
    return _count_while(
        lambda segment: not segment.is_active and segment.end_offset <= log_start_offset, segments
    )


def _deletable(segments: Sequence[SegmentSummary], high_watermark: int) -> Iterable[SegmentSummary]:
    """The segments that may be deleted: below the high watermark, and not the active one."""
    return takewhile(
        lambda segment: not segment.is_active and segment.end_offset <= high_watermark, segments
    )


def _count_while(
    condition: Callable[[SegmentSummary], bool], segments: Iterable[SegmentSummary]
) -> int:
    return sum(1 for _ in takewhile(condition, segments))


# --- flushing ---------------------------------------------------------------------------------


def flush_due(
    messages_unflushed: int, last_flush_ms: int, now_ms: int, flush_messages: int, flush_ms: int
) -> bool:
    """Whether an fsync is due, by Kafka's `flush.messages` and `flush.ms`, on the steady clock."""
    return messages_unflushed > 0 and (
        messages_unflushed >= flush_messages or now_ms - last_flush_ms >= flush_ms
    )
