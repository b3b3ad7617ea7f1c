"""Finds aborted transactions in the transaction indexes of segments."""

from collections.abc import Iterable

from ottla.storage.log.cold_read import ReadAt
from ottla.storage.log.segment import Segment
from ottla.storage.producers.state import AbortedTransaction


def aborted_transactions(
    segments: Iterable[Segment], start_offset: int, end_offset: int, read: ReadAt
) -> list[AbortedTransaction]:
    """The aborted transactions with a record in [start, end), by their first offsets."""
    found = [
        entry
        for segment in segments
        for entry in segment.aborted.entries(read)
        if entry.last_offset >= start_offset and entry.first_offset < end_offset
    ]
    return sorted(found, key=lambda entry: entry.first_offset)
