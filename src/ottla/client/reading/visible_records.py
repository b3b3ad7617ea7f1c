"""Which of the fetched records a reader sees. Does no I/O."""

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
    """Not even the first batch is whole: it is larger than what may be fetched."""

    def __init__(self, size: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of which {size} bytes are less than the whole"
        )


class Unreadable(NamedTuple):
    """A batch with a good checksum whose records cannot be read: its producer sent it like that."""

    first_offset: int
    next_offset: int
    reason: str


def unreadable(header: BatchHeader, reason: str) -> Unreadable:
    return Unreadable(header.base_offset, header.next_offset, reason)


# Where in what was fetched, and the header that is there.
PlacedBatch = tuple[int, BatchHeader]


class Seen(NamedTuple):
    """The records of some batches from an offset on, and the offset behind the last batch."""

    records: list[Record]
    next_offset: int
    unreadable: list[Unreadable]


def visible(fetched: memoryview, aborted: Sequence[Aborted], offset: int) -> Seen:
    """What a reader at `offset` sees: no control records, none of aborted transactions.

    Of a batch that cannot be read, some records before the fault may be seen; the rest is told.
    CorruptBatch if bytes were changed on their way; BatchTooLarge.
    """
    seen: list[Record] = []
    skipped: list[Unreadable] = []
    batches = list(whole_batches(fetched))
    for position, header in visible_batches(fetched, batches, aborted, offset):
        try:
            for each in records(fetched, position):
                if each.offset >= offset:
                    seen.append(each)
        except PeerError as error:
            reason = error.reason if isinstance(error, CorruptBatch) else str(error)
            skipped.append(unreadable(header, reason))
    return Seen(seen, max([offset, *(header.next_offset for _, header in batches)]), skipped)


def visible_batches(
    fetched: memoryview, batches: Iterable[PlacedBatch], aborted: Sequence[Aborted], offset: int
) -> Iterator[PlacedBatch]:
    """Those of the batches that have records for a reader at `offset`. CorruptBatch."""
    void = _VoidProducers(aborted)
    for position, header in batches:
        if header.next_offset <= offset:
            continue
        if not crc_is_valid(fetched, header, position):
            raise CorruptBatch(position, "the checksum is wrong")
        if void.shows(fetched, position, header):
            yield position, header


def whole_batches(fetched: memoryview) -> Iterator[PlacedBatch]:
    """Every batch but a cut one at the end. CorruptBatch, BatchTooLarge."""
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


class _VoidProducers:
    """Whose transactional records are void, from batch to batch."""

    def __init__(self, aborted: Sequence[Aborted]) -> None:
        # The next to begin is the last.
        self._to_come = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._now: set[int] = set()

    def shows(self, fetched: memoryview, position: int, header: BatchHeader) -> bool:
        while self._to_come and self._to_come[-1].first_offset <= header.last_offset:
            self._now.add(self._to_come.pop().producer_id)
        if not header.is_control:
            return not (header.is_transactional and header.producer_id in self._now)
        if header.producer_id in self._now:
            marker = read_marker(fetched, position)
            if marker is not None and marker.kind is MarkerKind.ABORT:
                self._now.discard(header.producer_id)
        return False
