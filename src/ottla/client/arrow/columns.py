"""What was fetched as columns, before Arrow has a name for them. Does no I/O."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ottla.client.reading.fetch import Fetched
from ottla.client.reading.visible_records import (
    PlacedBatch,
    Unreadable,
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
    """What one batch of columns may hold: so many rows, and records of so many bytes or one."""

    rows_max: int = 1 << 18
    bytes_max: int = 64 << 20


def fetched_columns(
    fetched: Fetched,
    batches: Sequence[PlacedBatch],
    first_offset: int,
    end_offset: int,
    wanted: int,
    limits: ColumnLimits,
    on_unreadable: Callable[[Unreadable], None],
) -> Iterator[Columns]:
    """The rows that a reader sees from `first_offset` to before `end_offset`; never none at all.

    `batches` are those in what was fetched. CorruptBatch if bytes were changed on their way. If the
    records of a batch cannot be read, `on_unreadable` is told once those before the fault are out.
    """
    # A header may claim any number of records, so that this is a bound and no promise.
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
    """The bytes in which a batch's records lie plain, and where in them."""
    if header.codec == Codec.NONE and header.magic == MAGIC and header.count >= 0:
        # All such batches lie in the same bytes, which are looked at once.
        return fetched, position + HEADER_BYTES, position + header.size
    body = plain_records(fetched, position)
    return body, 0, len(body)
