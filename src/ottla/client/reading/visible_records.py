"""Selects the fetched records that a consumer sees. Does no I/O."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.client.reading.fetch import Aborted
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    MarkerKind,
    Record,
    crc_is_valid,
    read_header,
    read_marker,
    records,
)


class BatchTooLarge(PeerError):
    """The first batch is incomplete: it is larger than the fetch limit."""

    def __init__(self, size: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of which {size} bytes are less than the whole"
        )


class UnreadableBatch(NamedTuple):
    """A batch with a valid checksum whose records cannot be decoded, as its producer sent it."""

    first_offset: int
    next_offset: int
    reason: str


def unreadable(header: BatchHeader, reason: str) -> UnreadableBatch:
    return UnreadableBatch(header.base_offset, header.next_offset, reason)


# The position in the fetched bytes, and the header at it.
PlacedBatch = tuple[int, BatchHeader]


class VisibleRecords(NamedTuple):
    """The visible records of some batches, and the offset after the last batch."""

    records: list[Record]
    next_offset: int
    unreadable: list[UnreadableBatch]


def visible(fetched: memoryview, aborted: Sequence[Aborted], offset: int) -> VisibleRecords:
    """The records that a consumer at `offset` sees: no control records, no aborted transactions.

    A batch that cannot be decoded is in `unreadable`; its records before the fault may be visible.
    CorruptBatch if a checksum is wrong; BatchTooLarge.
    """
    seen: list[Record] = []
    skipped: list[UnreadableBatch] = []
    batches = list(whole_batches(fetched))
    for position, header in visible_batches(fetched, batches, aborted, offset):
        try:
            for each in records(fetched, position):
                if each.offset >= offset:
                    seen.append(each)
        except PeerError as error:
            reason = error.reason if isinstance(error, CorruptBatch) else str(error)
            skipped.append(unreadable(header, reason))
    return VisibleRecords(
        seen, max([offset, *(header.next_offset for _, header in batches)]), skipped
    )


def visible_batches(
    fetched: memoryview, batches: Iterable[PlacedBatch], aborted: Sequence[Aborted], offset: int
) -> Iterator[PlacedBatch]:
    """The batches with visible records for a consumer at `offset`. CorruptBatch."""
    aborted_producers = _AbortedProducers(aborted)
    for position, header in batches:
        if header.next_offset <= offset:
            continue
        if not crc_is_valid(fetched, header, position):
            raise CorruptBatch(position, "the checksum is wrong")
        if aborted_producers.is_visible(fetched, position, header):
            yield position, header


def whole_batches(fetched: memoryview) -> Iterator[PlacedBatch]:
    """All complete batches. CorruptBatch, BatchTooLarge."""
    position = 0
    while len(fetched) - position >= HEADER_BYTES:
        header = read_header(fetched, position)
        if header.size < HEADER_BYTES:
            raise CorruptBatch(position, f"a length of {header.length}")
        if header.size > len(fetched) - position:
            break
        yield position, header
        position += header.size
    if position == 0 and len(fetched):
        raise BatchTooLarge(len(fetched))


class _AbortedProducers:
    """Tracks the producers with an aborted transaction, from batch to batch."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        # The next transaction is the last element.
        self._upcoming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._current: set[int] = set()

    def is_visible(self, fetched: memoryview, position: int, header: BatchHeader) -> bool:
        while self._upcoming and self._upcoming[-1].first_offset <= header.last_offset:
            self._current.add(self._upcoming.pop().producer_id)
        if not header.is_control:
            return not (header.is_transactional and header.producer_id in self._current)
        if header.producer_id in self._current:
            marker = read_marker(fetched, position)
            if marker is not None and marker.kind is MarkerKind.ABORT:
                self._current.discard(header.producer_id)
        return False
