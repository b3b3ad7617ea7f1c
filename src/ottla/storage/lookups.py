"""Finding records by their time, and aborted transactions, among a log's segments."""

from collections.abc import Iterable, Sequence

from ottla.storage.producer_state import AbortedTransaction
from ottla.storage.segment import Segment, TimestampOffset


def offset_for_time(
    segments: Iterable[Segment], timestamp_ms: int, start_offset: int
) -> TimestampOffset | None:
    """The first record from `start_offset` on whose time is at least `timestamp_ms`."""
    for segment in segments:
        if segment.largest_timestamp[0] >= timestamp_ms:
            found = segment.find_time(timestamp_ms, start_offset)
            if found:
                return found
    return None


def largest_timestamp(segments: Sequence[Segment], start_offset: int) -> TimestampOffset | None:
    """The record from `start_offset` on with the largest time; the first if there are several."""
    found: TimestampOffset | None = None
    for segment in sorted(segments, key=lambda segment: -segment.largest_timestamp[0]):
        if segment.largest_timestamp[0] < (found.timestamp_ms if found else 0):
            break
        candidate = segment.find_largest_time(start_offset)
        if candidate and (found is None or _is_before(candidate, found)):
            found = candidate
    return found


def _is_before(one: TimestampOffset, other: TimestampOffset) -> bool:
    # By their segments' times they come in any order: those may be of records that are gone.
    return (-one.timestamp_ms, one.offset) < (-other.timestamp_ms, other.offset)


def aborted_transactions(
    segments: Iterable[Segment], start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """The aborted transactions with a record in [start, end), by their first offsets."""
    found = [
        entry
        for segment in segments
        for entry in segment.aborted.entries()
        if entry.last_offset >= start_offset and entry.first_offset < end_offset
    ]
    return sorted(found, key=lambda entry: entry.first_offset)
