"""A whole topic, or a part of it, as an Arrow table or as record batches."""

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, overload

from ottla.client.arrow.offsets_spec import Place, check_place, resolve
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
    start: Place = ...,
    end: Place = ...,
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
    start: Place = ...,
    end: Place = ...,
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
    start: Place = "earliest",
    end: Place = "latest",
    *,
    bootstrap_servers: str = BOOTSTRAP_SERVERS_DEFAULT,
    columns: Sequence[str] | None = None,
    isolation: IsolationLevel = "read_uncommitted",
    batches: bool = False,
    skip_unreadable: bool = False,
    options: ClientOptions | None = None,
) -> "pa.Table | Iterator[pa.RecordBatch]":
    """The records of a topic as a pyarrow.Table, or one by one as record batches.

    Reads what is there now: from `start` to before `end`, partition by partition, each in the order
    of its offsets. A place is "earliest", "latest", an offset, a datetime with a time zone (the
    first record that is not before it) or a mapping of partitions to offsets; partitions that it
    does not name are read from their beginning, and to their end. What lies behind the end is not
    waited for. `columns` are the names of those wanted, in their order; what is left out is not
    even built. With "read_committed", records of transactions that were aborted are left out, and
    the end is before the first transaction that is not over. With `batches`, memory holds a few
    fetches of some megabytes, however large the topic.

    A producer can store a batch that nobody can read: RecordsUnreadable then names its offsets,
    unless `skip_unreadable` is set: then a warning does, and reading goes on behind it.

    ClientError if it cannot be read (OffsetsGone if `start` was deleted already), PeerError if what
    a broker sent cannot be decoded, ValueError for places and columns that do not exist, and
    ImportError without pyarrow.
    """
    if isolation not in _ISOLATIONS:
        raise ValueError(f"{isolation!r} is no isolation: there are {', '.join(_ISOLATIONS)}")
    for place in (start, end):
        check_place(place)
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
    start: Place,
    end: Place,
    isolation: Isolation,
) -> Iterator["pa.RecordBatch"]:
    with client:
        partitions = client.partitions(topic)
        starts = resolve(client, partitions, start, isolation, OffsetSpec.EARLIEST)
        ends = resolve(client, partitions, end, isolation, OffsetSpec.LATEST)
        last = client.offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), isolation)
        for each in partitions:
            yield from reader.read(Span(each, starts[each], min(ends[each], last[each])))
