"""Finds aborted transactions in the transaction indexes of segments."""

from collections.abc import Iterable

from ottla.storage.log.cold_read import ReadAt
from ottla.storage.log.segment import Segment
from ottla.storage.producers.state import AbortedTransaction


def aborted_transactions(
    segments: Iterable[Segment], start_offset: int, end_offset: int, read: ReadAt
) -> list[AbortedTransaction]:
    """The aborted transactions with a record in [start, end), by their first offsets.

    `segments` begin with the one that holds `start_offset`. The time does not depend on the number
    of transactions outside of the range.
    """
    found: list[AbortedTransaction] = []
    for segment in segments:
        entries, is_complete = segment.aborted.overlapping(start_offset, end_offset, read)
        found += entries
        if is_complete:
            break
    return sorted(found, key=lambda entry: entry.first_offset)
