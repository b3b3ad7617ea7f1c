"""Checks and searches the records of a batch in native code, without building `Record` objects.

`body` is the uncompressed records section of a batch, as `batch.plain_records` returns it. A batch
may have millions of records, and native code holds the interpreter lock while it reads them. So it
reads in steps, and a thread that surveys a large batch lets the event loop run in between.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.native import scan as native_scan
from ottla.protocol.batch import BatchHeader, CorruptBatch
from ottla.protocol.compression import Buffer

# Takes about a millisecond.
RECORDS_PER_STEP = 1 << 16


class Survey(NamedTuple):
    """Facts about a batch's records that a leader needs."""

    # -1 if no record has a timestamp; Kafka then writes -1 into the header too.
    max_timestamp: int
    # 2^63 - 1 if no record has a timestamp.
    min_timestamp: int
    keyless_count: int


class FlawedRecord(NamedTuple):
    """A record that a topic refuses, and its index in the batch."""

    number: int
    has_key: bool
    timestamp: int


class TimedRecord(NamedTuple):
    """A record that was found by its timestamp."""

    timestamp: int
    offset: int


def survey(body: Buffer, header: BatchHeader) -> Survey:
    """Reads all records. `CorruptBatch` unless they match the header's count, numbered from 0."""
    position, max_timestamp, min_timestamp, keyless_count = 0, -1, 2**63 - 1, 0
    try:
        for first, last in _steps(header.count):
            position, latest, earliest, keyless = native_scan.survey(
                body, position, first, last, header.base_timestamp
            )
            max_timestamp = max(max_timestamp, latest)
            min_timestamp = min(min_timestamp, earliest)
            keyless_count += keyless
        native_scan.check_end(position, len(body))
    except ValueError as error:
        raise CorruptBatch(0, f"records section, {error}") from None
    return Survey(max_timestamp, min_timestamp, keyless_count)


def flawed_records(
    body: Buffer,
    header: BatchHeader,
    *,
    wants_keys: bool,
    earliest_ms: int,
    latest_ms: int,
    flawed_max: int,
) -> list[FlawedRecord]:
    """The first surveyed records that lack a required key, or whose timestamp is out of range."""
    found: list[FlawedRecord] = []
    position = 0
    for first, last in _steps(header.count):
        position, flawed = native_scan.flawed(
            body, position, first, last, header.base_timestamp, wants_keys, earliest_ms, latest_ms
        )
        found += map(FlawedRecord._make, flawed)
        if len(found) >= flawed_max:
            break
    return found[:flawed_max]


def first_record_at(
    body: Buffer, header: BatchHeader, timestamp_ms: int, offset_min: int
) -> TimedRecord | None:
    """The first record with at least this timestamp and this offset. `CorruptBatch`."""
    stamped, base_timestamp = _times_of(header)
    base_offset, position = header.base_offset, 0
    try:
        for first, last in _steps(header.count):
            position, offset, timestamp = native_scan.first_at(
                body,
                position,
                last - first,
                base_offset,
                base_timestamp,
                stamped,
                timestamp_ms,
                offset_min,
                header.last_offset_delta,
            )
            if offset >= 0:
                return TimedRecord(timestamp, offset)
    except ValueError as error:
        raise CorruptBatch(0, f"records section, {error}") from None
    return None


def latest_time_from(body: Buffer, header: BatchHeader, offset_min: int) -> int:
    """The largest timestamp of records with at least this offset, or -1. `CorruptBatch`."""
    stamped, base_timestamp = _times_of(header)
    position, latest_ms = 0, -1
    try:
        for first, last in _steps(header.count):
            position, timestamp = native_scan.latest_from(
                body,
                position,
                last - first,
                header.base_offset,
                base_timestamp,
                stamped,
                offset_min,
                header.last_offset_delta,
            )
            latest_ms = max(latest_ms, timestamp)
    except ValueError as error:
        raise CorruptBatch(0, f"records section, {error}") from None
    return latest_ms


def _times_of(header: BatchHeader) -> tuple[bool, int]:
    """Whether all records have the same timestamp, and the base of the timestamp deltas."""
    stamped = header.is_log_append_time
    return stamped, header.max_timestamp if stamped else header.base_timestamp


def _steps(count: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, RECORDS_PER_STEP):
        yield first, min(first + RECORDS_PER_STEP, count)
