"""Finding records by their time, in steps that whoever searches takes as it can afford them.

A search is a generator. It looks batches up by their headers, and yields a `Reading` where records
have to be read: that may mean to unfold a large batch, so it is for the caller to do it here or in
a thread, and to send the answer back. It yields None where it has looked at many headers and others
should have their turn, and ColdBytes where these have to be read in a thread before it can go on.
Between two steps the log may grow, shrink or be trimmed.

Clients wrote the records. Where they cannot be read, or have other times than their header claims,
the header's word is taken: a search never fails for what is in a batch whose checksum is right.
"""

from collections.abc import Generator
from typing import NamedTuple, Protocol

from ottla.protocol.batch import DECOMPRESSED_BYTES_MAX, BatchHeader, read_header
from ottla.protocol.record_survey import TimedRecord, first_record_at, latest_time_from
from ottla.storage.admission.work_budget import UNBOUNDED, WorkBudget
from ottla.storage.log.cold_read import COLD_READS_MAX, ColdBytes, ColdRead

# Headers that are looked at in one step lie in so many bytes.
STEP_BYTES = 1 << 20


class TimestampOffset(NamedTuple):
    """A record by its time, and the leader epoch of its batch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class StoredBatch(NamedTuple):
    """A batch that was read from a log, and is what its checksum says."""

    content: bytes
    header: BatchHeader


class Unfinished(NamedTuple):
    """Nothing was found below this offset, and there is more to look at."""

    next_offset: int


class LatestClaim(NamedTuple):
    """The first batch with the largest time of those that were looked at, by their headers."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class TimedLog(Protocol):
    """What a search asks of a log. `warm_only`: ColdRead rather than to wait for the disk."""

    @property
    def start_offset(self) -> int: ...

    @property
    def largest_claim_ms(self) -> int:
        """No batch claims a larger time; -1 if there is none."""
        ...

    def batch_by_time(
        self, timestamp_ms: int, offset: int, *, warm_only: bool = False
    ) -> StoredBatch | Unfinished | None:
        """The first batch that ends at or beyond `offset` and claims at least this time."""
        ...

    def latest_claim(
        self, offset: int, *, warm_only: bool = False
    ) -> tuple[LatestClaim | None, Unfinished | None]:
        """What the headers of the next batches claim that begin at or beyond `offset`."""
        ...

    def batch_at(self, offset: int, *, warm_only: bool = False) -> StoredBatch | None:
        """The batch that holds an offset, or the next one."""
        ...


class Reading(NamedTuple):
    """The question for the first record of a batch with at least a time and an offset.

    Without a time it is for the one with the largest.
    """

    batch: StoredBatch
    timestamp_ms: int | None
    offset_min: int

    def answer(
        self,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
        budget: WorkBudget = UNBOUNDED,
    ) -> TimedRecord | None:
        """PeerError if the records cannot be read; BudgetSpent. May be called in a thread."""
        content, header = self.batch
        body = budget.unfold(content, decompressed_bytes_max)
        budget.spend_on_reading(min(header.count, len(body)))
        timestamp_ms = self.timestamp_ms
        if timestamp_ms is None:
            timestamp_ms = latest_time_from(body, header, self.offset_min)
        return first_record_at(body, header, timestamp_ms, self.offset_min)


class Unreadable(NamedTuple):
    """The answer to a reading that failed, by the fault of whoever wrote the batch."""

    reason: str


Answer = TimedRecord | Unreadable | None
Step = Reading | ColdBytes | None
Search = Generator[Step, Answer, TimestampOffset | None]


def first_since(log: TimedLog, timestamp_ms: int) -> Search:
    """The first record, by offset, whose time is at least `timestamp_ms`."""
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
    """What the header says of a batch whose records cannot be read."""
    header = batch.header
    first = max(header.base_offset, offset)
    return TimestampOffset(header.max_timestamp, first, header.partition_leader_epoch)


def latest(log: TimedLog) -> Search:
    """The record with the largest time; the first of them if there are several."""
    largest_ms = log.largest_claim_ms
    if largest_ms >= 0:
        found = yield from first_since(log, largest_ms)
        if found is not None:
            return found
    # That record lies before the start of the log, or is gone: all that is left is looked at.
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
    """The largest time in the batch that the start of the log cuts in two, of what is left of it.

    Its header speaks of records that are gone.
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
