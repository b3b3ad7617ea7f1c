"""What a log must be: a plain list of batches and a few offsets."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ottla.protocol.batch import BatchHeader, Marker, read_header, read_marker, records
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.time_search import TimestampOffset
from ottla.storage.producers.entry import ProducerEntry
from ottla.storage.producers.state import AbortedTransaction, ProducerStates


class ModelRecord(NamedTuple):
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ModelBatch:
    """A batch as it must lie on disk, to the byte."""

    content: bytes
    header: BatchHeader
    marker: Marker | None
    records: tuple[ModelRecord, ...]

    @classmethod
    def of(cls, content: bytes) -> "ModelBatch":
        header = read_header(content)
        marker = read_marker(content) if header.is_control and header.count else None
        found = tuple(ModelRecord(record.offset, record.timestamp) for record in records(content))
        return cls(content, header, marker, found)


class Fold(NamedTuple):
    """What the batches from one offset on tell of their producers."""

    producers: ProducerStates
    # By the offset of the marker.
    aborted: dict[int, AbortedTransaction]


class LogModel:
    """Changes by plain list operations; the real log must follow.

    `flushed` is the offset up to which everything must survive. `origins` are the offsets from
    which the producers' state may have been counted: the log's first base each time it was
    rebuilt, since what was trimmed before it may be forgotten.
    """

    def __init__(self) -> None:
        # Trimmed batches stay here: what they told of their producers may be remembered.
        self.batches: list[ModelBatch] = []
        self.start_offset = 0
        self.end_offset = 0
        self.flushed = 0
        # A sync failed: until a power loss shows it nobody knows what is durable...
        self.in_doubt = False
        # ...and a later sync, which says that all is well, knows no better.
        self.misled = False
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()
        self.origins = [0]

    # Changing

    def append(self, batch: ModelBatch) -> None:
        header = batch.header
        latest = self.epochs.latest
        if latest is None or latest.epoch < header.partition_leader_epoch:
            self.epochs.assign(header.partition_leader_epoch, self.end_offset)
        self.batches.append(batch)
        self.end_offset = header.next_offset
        self.producers.replay(header, batch.marker)

    def flush_to(self, offset: int) -> None:
        self.misled |= self.in_doubt
        self.flushed = max(self.flushed, min(offset, self.end_offset))

    def cut(self, end_offset: int) -> None:
        """Nothing at or beyond `end_offset` is left."""
        while self.batches and self.batches[-1].header.next_offset > end_offset:
            self.batches.pop()
        self.end_offset = end_offset
        self.flushed = min(self.flushed, end_offset)
        self.epochs.truncate_end(end_offset)
        self.start_offset = min(self.start_offset, end_offset)

    def restart(self, offset: int) -> None:
        """The log is empty and goes on at `offset`."""
        self.batches = [batch for batch in self.batches if batch.header.next_offset <= offset]
        self.start_offset = self.end_offset = offset
        self.flushed = min(self.flushed, offset)

    def begin_again(self, offset: int) -> None:
        """All is forgotten, producers and epochs included."""
        self.batches = []
        self.start_offset = self.end_offset = self.flushed = offset
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates(offset)
        self.origins = [offset]

    def trim(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.epochs.truncate_start(start_offset)
        self.producers.truncate_start(start_offset)

    def rebuilt_from(self, origin: int) -> None:
        """The producers' state was rebuilt by a log whose first segment begins at `origin`."""
        if origin not in self.origins:
            self.origins.append(origin)

    # What must be found

    def boundary_at_or_before(self, offset: int) -> int:
        """Where a log ends that is truncated to `offset`."""
        kept = (b.header.next_offset for b in self.batches if b.header.next_offset <= offset)
        return max(kept, default=0)

    def boundaries(self, low: int, high: int) -> list[int]:
        """Every offset in [low, high] at which a log could have been cut."""
        found = {low, high, *(batch.header.next_offset for batch in self.batches)}
        found |= {batch.header.base_offset for batch in self.batches}
        return sorted(offset for offset in found if low <= offset <= high)

    def from_offset(self, offset: int) -> list[ModelBatch]:
        """The batches from the one that holds `offset`, or comes next, on."""
        return [batch for batch in self.batches if batch.header.last_offset >= offset]

    def at(self, offset: int) -> ModelBatch | None:
        return next((b for b in self.batches if b.header.last_offset >= offset), None)

    def visible_records(self) -> Iterator[tuple[ModelRecord, int]]:
        """Every record that may be served, with its leader epoch."""
        for batch in self.from_offset(self.start_offset):
            for record in batch.records:
                if record.offset >= self.start_offset:
                    yield record, batch.header.partition_leader_epoch

    def offset_for_time(self, timestamp_ms: int) -> TimestampOffset | None:
        for record, epoch in self.visible_records():
            if record.timestamp_ms >= timestamp_ms:
                return TimestampOffset(record.timestamp_ms, record.offset, epoch)
        return None

    def largest_timestamp(self) -> TimestampOffset | None:
        found: TimestampOffset | None = None
        for record, epoch in self.visible_records():
            if record.timestamp_ms > (found.timestamp_ms if found else -1):
                found = TimestampOffset(record.timestamp_ms, record.offset, epoch)
        return found

    def folds(self) -> list[Fold]:
        """The producers' state as it may be, counted from each origin."""
        return [self._fold(origin) for origin in self.origins]

    def _fold(self, origin: int) -> Fold:
        producers = ProducerStates(min(origin, self.end_offset))
        aborted = {}
        for batch in self.batches:
            if batch.header.base_offset >= origin:
                entry = producers.replay(batch.header, batch.marker)
                if entry:
                    aborted[entry.last_offset] = entry
        producers.truncate_start(self.start_offset)
        return Fold(producers, aborted)


def durable_part(producers: Iterable[ProducerEntry]) -> list[ProducerEntry]:
    """Of each producer what a snapshot holds: its last batch, and of that not the time."""
    return sorted(
        entry._replace(
            batches=tuple(span._replace(timestamp_ms=0) for span in entry.batches[-1:]),
        )
        for entry in producers
    )
