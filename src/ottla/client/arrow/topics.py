"""Reads a topic, or a part of it, as an Arrow table or as record batches."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, overload

from ottla.client.arrow.offsets_spec import OffsetsSpec, check_offsets_spec, resolve
from ottla.client.arrow.schema import import_pyarrow
from ottla.client.arrow.spans import Span, SpanReader
from ottla.client.blocking.client import BlockingClient
from ottla.client.connection.bootstrap import BOOTSTRAP_SERVERS_DEFAULT
from ottla.client.options import ClientOptions
from ottla.client.reading.partition_reader import UnreadableSpan
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec

if TYPE_CHECKING:
    import pyarrow as pa

IsolationLevel = Literal["read_uncommitted", "read_committed"]
_ISOLATIONS = {
    "read_uncommitted": Isolation.READ_UNCOMMITTED,
    "read_committed": Isolation.READ_COMMITTED,
}


@overload
def read_topic(
    topic: str,
    start: OffsetsSpec = ...,
    end: OffsetsSpec = ...,
    *,
    bootstrap_servers: str = ...,
    columns: Sequence[str] | None = ...,
    isolation: IsolationLevel = ...,
    batches: Literal[False] = ...,
    skip_unreadable: bool = ...,
    options: ClientOptions | None = ...,
) -> "pa.Table": ...


@overload
def read_topic(
    topic: str,
    start: OffsetsSpec = ...,
    end: OffsetsSpec = ...,
    *,
    bootstrap_servers: str = ...,
    columns: Sequence[str] | None = ...,
    isolation: IsolationLevel = ...,
    batches: Literal[True],
    skip_unreadable: bool = ...,
    options: ClientOptions | None = ...,
) -> Iterator["pa.RecordBatch"]: ...


def read_topic(
    topic: str,
    start: OffsetsSpec = "earliest",
    end: OffsetsSpec = "latest",
    *,
    bootstrap_servers: str = BOOTSTRAP_SERVERS_DEFAULT,
    columns: Sequence[str] | None = None,
    isolation: IsolationLevel = "read_uncommitted",
    batches: bool = False,
    skip_unreadable: bool = False,
    options: ClientOptions | None = None,
) -> "pa.Table | Iterator[pa.RecordBatch]":
    """The records of a topic as a pyarrow.Table or, with `batches`, an iterator of record batches.

    Reads the existing records from `start` to before `end`, partition by partition, in the order of
    offsets. Does not wait for records beyond the end. `start` and `end` are "earliest", "latest",
    an offset, a datetime with a time zone (the first record with this timestamp or a later one) or
    a mapping of partitions to offsets. Partitions that a mapping does not name are read from their
    beginning, or to their end. `columns` are the names of the columns, in their order; others are
    not built. "read_committed" leaves out records of aborted transactions, and ends at the last
    stable offset. With `batches`, memory holds a few fetches of some megabytes, however large the
    topic.

    A producer can store a batch that cannot be decoded. RecordsUnreadable then names its offsets.
    With `skip_unreadable` the batch is skipped with a warning.

    ClientError if the topic cannot be read (OffsetsGone if `start` was deleted), PeerError if the
    bytes of a broker cannot be decoded, ValueError for invalid arguments, ImportError without
    pyarrow.
    """
    if isolation not in _ISOLATIONS:
        raise ValueError(f"{isolation!r} is no isolation: there are {', '.join(_ISOLATIONS)}")
    for spec in (start, end):
        check_offsets_spec(spec)
    client = BlockingClient(bootstrap_servers, options)
    reader = SpanReader(
        client,
        columns=columns,
        isolation=_ISOLATIONS[isolation],
        on_unreadable=_warn if skip_unreadable else None,
    )
    reading = _read(client, reader, topic, start, end, _ISOLATIONS[isolation])
    if batches:
        return reading
    return import_pyarrow().Table.from_batches(reading, schema=reader.schema)


def _warn(span: UnreadableSpan) -> None:
    logging.getLogger("ottla").warning("%s", span)


def _read(
    client: BlockingClient,
    reader: SpanReader,
    topic: str,
    start: OffsetsSpec,
    end: OffsetsSpec,
    isolation: Isolation,
) -> Iterator["pa.RecordBatch"]:
    with client:
        partitions = client.partitions(topic)
        starts = resolve(client, partitions, start, isolation, OffsetSpec.EARLIEST)
        ends = resolve(client, partitions, end, isolation, OffsetSpec.LATEST)
        last = client.offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), isolation)
        for each in partitions:
            yield from reader.read(Span(each, starts[each], min(ends[each], last[each])))
