"""Converts fetched batches to columns in memory, still without Arrow. Does no I/O."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ottla.client.reading.fetch import Fetched
from ottla.client.reading.visible_records import (
    PlacedBatch,
    UnreadableBatch,
    unreadable,
    visible_batches,
)
from ottla.errors import PeerError
from ottla.native.columns import Columns, Rows
from ottla.protocol.batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    plain_records,
)
from ottla.protocol.compression import Buffer, Codec


class ColumnLimits(NamedTuple):
    """The limits of one batch of columns. A single record may exceed `bytes_max`."""

    rows_max: int = 1 << 18
    bytes_max: int = 64 << 20


def fetched_columns(
    fetched: Fetched,
    batches: Sequence[PlacedBatch],
    first_offset: int,
    end_offset: int,
    wanted: int,
    limits: ColumnLimits,
    on_unreadable: Callable[[UnreadableBatch], None],
) -> Iterator[Columns]:
    """The visible rows from `first_offset` to before `end_offset`; yields no empty columns.

    `batches` are the complete batches of `fetched`. CorruptBatch if a checksum is wrong. If a batch
    cannot be decoded, yields its rows before the fault, and then calls `on_unreadable`.
    """
    # An upper bound: a header may claim any number of records.
    to_come = sum(header.count for _, header in batches if header.count > 0)

    def empty_rows() -> Rows:
        capacity = max(1, min(limits.rows_max, to_come))
        return Rows(wanted, capacity, limits.bytes_max, first_offset, end_offset)

    rows = empty_rows()
    for position, header in visible_batches(
        fetched.records, batches, fetched.aborted, first_offset
    ):
        if header.base_offset >= end_offset:
            break
        stamped = header.is_log_append_time
        time_ms = header.max_timestamp if stamped else header.base_timestamp
        left, delta = header.count, 0
        fault = ""
        try:
            body, at, end = _records_section(fetched.records, position, header)
        except PeerError as error:
            left, fault = 0, str(error)
        while left > 0 or not fault:
            try:
                at, left = rows.take(
                    body,
                    at,
                    end,
                    left,
                    header.base_offset,
                    time_ms,
                    stamped,
                    delta,
                    header.last_offset_delta,
                )
            except ValueError as error:
                left, fault = 0, f"records section, {error}"
            if left == 0:
                break
            delta = rows.next_delta()
            to_come -= rows.row_count()
            yield rows.columns()
            rows = empty_rows()
        if fault:
            if rows.row_count():
                yield rows.columns()
                rows = empty_rows()
            on_unreadable(unreadable(header, fault))
    if rows.row_count():
        yield rows.columns()


def _records_section(
    fetched: memoryview, position: int, header: BatchHeader
) -> tuple[Buffer, int, int]:
    """The bytes with a batch's uncompressed records, and their begin and end in them."""
    if header.codec == Codec.NONE and header.magic == MAGIC and header.count >= 0:
        # All uncompressed batches share one buffer, which `Rows` acquires once.
        return fetched, position + HEADER_BYTES, position + header.size
    body = plain_records(fetched, position)
    return body, 0, len(body)
