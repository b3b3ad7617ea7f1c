"""When a segment is closed, when it may go, and when it must be flushed: decisions, no I/O.

Record timestamps decide, never a file's times: a copied or restored directory ages as the
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
    """What retention knows of a segment."""

    base_offset: int
    # The next segment's base offset; of the active segment the log's end.
    end_offset: int
    size_bytes: int
    # -1 if no record has one.
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
    """What rolling knows of the active segment."""

    base_offset: int
    size_bytes: int
    # The largest timestamp of its first batch; -1 if that has none.
    first_timestamp_ms: int
    # By the steady clock: a wall clock that is set makes no segment older or younger.
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
    """Whether this batch begins a new segment instead of going to the active one.

    An empty segment takes any batch whose offsets it can index. `now_ms` is of the steady clock.
    """
    if batch_last_offset - active.base_offset > OFFSET_DELTA_MAX:
        return True
    if active.size_bytes == 0:
        return False
    return (
        active.size_bytes + batch_bytes > rules.segment_bytes
        or _age_ms(active, batch_max_timestamp_ms, now_ms) > rules.segment_ms
        or active.offset_index_entries >= rules.index_bytes // OFFSET_INDEX_ENTRY_BYTES
        # The time index keeps a place for the entry that closes it.
        or active.time_index_entries >= rules.index_bytes // TIME_INDEX_ENTRY_BYTES - 1
    )


class Room(NamedTuple):
    """What the active segment surely takes: a batch within all of these rolls nothing."""

    # Where the batch ends, in bytes and in offsets; its largest time.
    size_bytes: int
    last_offset: int
    timestamp_ms: int

    def takes(self, size_bytes: int, last_offset: int, timestamp_ms: int) -> bool:
        return (
            size_bytes <= self.size_bytes
            and last_offset <= self.last_offset
            and timestamp_ms <= self.timestamp_ms
        )


# To be looked at more closely: `should_roll` decides.
NO_ROOM = Room(-1, -1, -1)
# Below every timestamp, and below that of a batch without one (-1).
_NO_TIME_MS = -2


def room(active: RollState, rules: RollRules, index_interval_bytes: int) -> Room:
    """As much as can be told before a batch comes, so that most need no closer look."""
    if active.size_bytes == 0:
        return NO_ROOM  # its first batch sets the time from which its age counts
    entries = min(
        rules.index_bytes // OFFSET_INDEX_ENTRY_BYTES - active.offset_index_entries,
        rules.index_bytes // TIME_INDEX_ENTRY_BYTES - 1 - active.time_index_entries,
    )
    # An entry comes only after more than so many bytes.
    indexed_bytes = max(0, entries - 1) * (index_interval_bytes + 1)
    has_time = active.first_timestamp_ms >= 0
    return Room(
        size_bytes=min(rules.segment_bytes, active.size_bytes + indexed_bytes),
        last_offset=active.base_offset + OFFSET_DELTA_MAX,
        # Without a time of its own its age is that of the steady clock, which is asked each time.
        timestamp_ms=active.first_timestamp_ms + rules.segment_ms if has_time else _NO_TIME_MS,
    )


def _age_ms(active: RollState, batch_max_timestamp_ms: int, now_ms: int) -> int:
    """In the records' own time; in ours only if the first batch came without one."""
    if active.first_timestamp_ms >= 0:
        return batch_max_timestamp_ms - active.first_timestamp_ms
    return now_ms - active.created_ms


# --- deleting ---------------------------------------------------------------------------------


def expired_by_time(
    segments: Sequence[SegmentSummary], *, now_ms: int, retention_ms: int, high_watermark: int
) -> int:
    """How many segments, from the front, hold nothing younger than `retention_ms` (-1: for ever).

    Records without a timestamp never grow old: only size and `DeleteRecords` remove them.
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
    """Whether all that the active segment holds has had its time: only its place keeps it."""
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
    """How many segments, from the front, can go with `retention_bytes` left (-1: no bound)."""
    if retention_bytes < 0:
        return 0
    excess_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes

    def is_excess(segment: SegmentSummary) -> bool:
        nonlocal excess_bytes
        excess_bytes -= segment.size_bytes
        return excess_bytes >= 0

    return _count_while(is_excess, _deletable(segments, high_watermark))


def below_start(segments: Sequence[SegmentSummary], *, log_start_offset: int) -> int:
    """How many segments, from the front, hold nothing at or after the log's start."""
    return _count_while(
        lambda segment: not segment.is_active and segment.end_offset <= log_start_offset, segments
    )


def _deletable(segments: Sequence[SegmentSummary], high_watermark: int) -> Iterable[SegmentSummary]:
    """The segments that may go at all: what is not replicated stays, so does the active one."""
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
