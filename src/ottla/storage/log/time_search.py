"""Searches a log for records by timestamp, in steps that the caller drives.

A search is a generator. It finds batches by their headers, and yields a `Reading` where records
have to be parsed: that may mean decompressing a large batch, so the caller does it on the loop or
in a thread, and sends the answer back. It yields None after many headers, so that other tasks run,
and ColdBytes where a thread has to read these first. The log may change between two steps.

Clients wrote the records. Where these cannot be parsed, or have other timestamps than the header
claims, the header decides: a search never fails because of a batch whose checksum is right.
"""

from collections.abc import Generator
from typing import NamedTuple, Protocol

from ottla.protocol.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, read_header
from ottla.protocol.record_survey import TimedRecord, first_record_at, latest_time_from
from ottla.storage.admission.work_budget import UNBOUNDED, WorkBudget
from ottla.storage.log.cold_read import COLD_READS_MAX, ColdBytes, ColdRead

# One step reads the headers in so many bytes of a segment.
STEP_BYTES = 1 << 20


class TimestampOffset(NamedTuple):
    """The timestamp and offset of a record, and the leader epoch of its batch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class StoredBatch(NamedTuple):
    """A batch of a log whose checksum is right."""

    content: bytes
    header: BatchHeader


class Unfinished(NamedTuple):
    """There is no match below this offset; the search goes on from there."""

    next_offset: int


class LatestClaim(NamedTuple):
    """The first batch with the largest max timestamp in its header, so far."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class TimedLog(Protocol):
    """The part of a log that a search uses. `warm_only`: ColdRead instead of a wait."""

    @property
    def start_offset(self) -> int: ...

    @property
    def largest_claim_ms(self) -> int:
        """The largest max timestamp of all batch headers; -1 if there is none."""
        ...

    def batch_by_time(
        self, timestamp_ms: int, offset: int, *, warm_only: bool = False
    ) -> StoredBatch | Unfinished | None:
        """The first batch that ends at or beyond `offset` with at least this max timestamp."""
        ...

    def latest_claim(
        self, offset: int, *, warm_only: bool = False
    ) -> tuple[LatestClaim | None, Unfinished | None]:
        """The largest max timestamp in the headers of the next batches from `offset` on."""
        ...

    def batch_at(self, offset: int, *, warm_only: bool = False) -> StoredBatch | None:
        """The batch that holds `offset`, or the next one."""
        ...


class Reading(NamedTuple):
    """A request for the first record of a batch with at least this timestamp and offset.

    Without a timestamp it is for the record with the largest one.
    """

    batch: StoredBatch
    timestamp_ms: int | None
    offset_min: int

    def answer(
        self,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
        budget: WorkBudget = UNBOUNDED,
    ) -> TimedRecord | None:
        """PeerError if the records cannot be parsed; BudgetSpent. A thread may call it."""
        content, header = self.batch
        body = budget.unfold(content, decompressed_bytes_max)
        budget.spend_on_reading(min(header.count, len(body)))
        timestamp_ms = self.timestamp_ms
        if timestamp_ms is None:
            timestamp_ms = latest_time_from(body, header, self.offset_min)
        return first_record_at(body, header, timestamp_ms, self.offset_min)


class Unreadable(NamedTuple):
    """The answer to a reading that failed because of the client's records."""

    reason: str


Answer = TimedRecord | Unreadable | None
Step = Reading | ColdBytes | None
Search = Generator[Step, Answer, TimestampOffset | None]


def first_since(log: TimedLog, timestamp_ms: int) -> Search:
    """The first record, by offset, with at least this timestamp."""
    offset, tries = log.start_offset, 0
    while True:
        offset = max(offset, log.start_offset)
        try:
            found = log.batch_by_time(timestamp_ms, offset, warm_only=tries < COLD_READS_MAX)
        except ColdRead as cold:
            yield cold.needed.after(tries)
            tries += 1
            continue
        tries = 0
        if found is None:
            return None
        if isinstance(found, Unfinished):
            offset = found.next_offset
            yield None
            continue
        answer = yield Reading(found, timestamp_ms, offset)
        if isinstance(answer, Unreadable):
            return _claimed(found, offset)
        if answer is not None:
            epoch = found.header.partition_leader_epoch
            return TimestampOffset(answer.timestamp, answer.offset, epoch)
        offset = found.header.next_offset


def _claimed(batch: StoredBatch, offset: int) -> TimestampOffset:
    """The result by the header of a batch whose records cannot be parsed."""
    header = batch.header
    first = max(header.base_offset, offset)
    return TimestampOffset(header.max_timestamp, first, header.partition_leader_epoch)


def latest(log: TimedLog) -> Search:
    """The first record with the largest timestamp."""
    largest_ms = log.largest_claim_ms
    if largest_ms >= 0:
        found = yield from first_since(log, largest_ms)
        if found is not None:
            return found
    # That record is below the log start offset or was compacted: all headers are read.
    claim = yield from _cut_batch(log)
    offset: int | None = log.start_offset
    tries = 0
    while offset is not None:
        offset = max(offset, log.start_offset)
        try:
            step, unfinished = log.latest_claim(offset, warm_only=tries < COLD_READS_MAX)
        except ColdRead as cold:
            yield cold.needed.after(tries)
            tries += 1
            continue
        tries = 0
        if step is not None and (claim is None or step.timestamp_ms > claim.timestamp_ms):
            claim = step
        offset = unfinished.next_offset if unfinished else None
        yield None
    if claim is None or claim.timestamp_ms < 0:
        return None
    found = yield from first_since(log, claim.timestamp_ms)
    return found or TimestampOffset(*claim)


def _cut_batch(log: TimedLog) -> Generator[Step, Answer, LatestClaim | None]:
    """The largest timestamp in the batch across the log start offset, of its remaining records.

    Its header counts records below the log start offset, too.
    """
    tries = 0
    while True:
        start_offset = log.start_offset
        try:
            batch = log.batch_at(start_offset, warm_only=tries < COLD_READS_MAX)
            break
        except ColdRead as cold:
            yield cold.needed.after(tries)
            tries += 1
    if batch is None or batch.header.base_offset >= start_offset:
        return None
    answer = yield Reading(batch, None, start_offset)
    if not isinstance(answer, TimedRecord):
        return None
    return LatestClaim(answer.timestamp, answer.offset, batch.header.partition_leader_epoch)


def stored_batch(content: bytes) -> StoredBatch:
    return StoredBatch(content, read_header(content))
