"""Reads spans of offsets as record batches. Sends the next fetch while one is decoded."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.arrow.columns import ColumnLimits, fetched_columns
from ottla.client.arrow.record_batches import RecordBatchMaker
from ottla.client.arrow.schema import checked_columns, wanted
from ottla.client.blocking.client import BlockingClient
from ottla.client.blocking.connection import BlockingConnection
from ottla.client.errors import ClientError, Refused, TimedOut
from ottla.client.reading.fetch import Fetched, FetchLimits, fetch_request, fetched
from ottla.client.reading.partition_reader import GoneOffsets, UnreadableSpan
from ottla.client.reading.visible_records import PlacedBatch, UnreadableBatch, whole_batches
from ottla.client.routing.outcomes import missing_in_response, unwrap
from ottla.client.routing.retries import is_retriable
from ottla.errors import ErrorCode
from ottla.protocol.batch import CorruptBatch
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_BYTES = 4 << 20
ROWS_MAX = ColumnLimits().rows_max
BATCH_BYTES_MAX = ColumnLimits().bytes_max


class Span(NamedTuple):
    """The offsets of a partition from `start` to before `end`. Not each has a record."""

    partition: TopicPartition
    start: int
    end: int


class OffsetsGone(Refused):
    """Offsets of a span that the partition does not have any more."""

    def __init__(self, gone: GoneOffsets) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{gone.partition}",
            f"offsets {gone.first_offset} to {gone.next_offset - 1} are not there any more",
        )
        self.gone = gone


class RecordsUnreadable(Refused):
    """A batch with a valid checksum whose records cannot be decoded, as its producer sent it."""

    def __init__(self, span: UnreadableSpan) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE,
            f"{span.partition}",
            f"{span}; to step over it, read on from offset {span.next_offset}",
        )
        self.span = span


class _InFlight(NamedTuple):
    """A fetch in flight."""

    leader: BlockingConnection
    number: int
    ids: dict[str, Uuid]


class SpanReader:
    """Reads spans of any partitions with one client, one after another or alternately.

    If offsets of a span were deleted, or the log ends before them, calls `on_gone` and continues
    after them; without `on_gone`, raises OffsetsGone. If a batch cannot be decoded, calls
    `on_unreadable` and skips it; without `on_unreadable`, raises RecordsUnreadable.
    """

    def __init__(
        self,
        client: BlockingClient,
        *,
        columns: Sequence[str] | None = None,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        fetch_bytes: int = FETCH_BYTES,
        rows_max: int = ROWS_MAX,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        on_gone: Callable[[GoneOffsets], None] | None = None,
        on_unreadable: Callable[[UnreadableSpan], None] | None = None,
    ) -> None:
        names = checked_columns(columns)
        self._client = client
        self._wanted = wanted(names)
        self._maker = RecordBatchMaker(names)
        self._column_limits = ColumnLimits(rows_max, batch_bytes_max)
        self._fetch_limits = FetchLimits(
            isolation=isolation, max_bytes=fetch_bytes, partition_max_bytes=fetch_bytes
        )
        self._on_gone = on_gone
        self._on_unreadable = on_unreadable

    @property
    def schema(self) -> "pa.Schema":
        """The schema of every record batch."""
        return self._maker.schema

    def read(self, span: Span) -> Iterator["pa.RecordBatch"]:
        """The span's records in the order of offsets. No batch is empty.

        ClientError; PeerError if a checksum is wrong.
        """
        position, end = span.start, span.end
        on_unreadable = partial(self._skip_unreadable, span.partition)
        in_flight: _InFlight | None = None
        try:
            while position < end:
                try:
                    found = self._fetch(span.partition, position, in_flight)
                except Refused as refused:
                    position = self._skip_gone(span, position, refused)
                    continue
                finally:
                    in_flight = None
                batches = list(whole_batches(found.records))
                following = _following(batches, position)
                if following < end:
                    in_flight = self._send_ahead(span.partition, following)
                for columns in fetched_columns(
                    found, batches, position, end, self._wanted, self._column_limits, on_unreadable
                ):
                    yield self._maker.make(columns, span.partition)
                position = following
        finally:
            if in_flight is not None:
                in_flight.leader.forget(in_flight.number)

    def _fetch(
        self, partition: TopicPartition, position: int, in_flight: _InFlight | None
    ) -> Fetched:
        """The batches at the position, from the fetch in flight or from a new one."""
        sent = in_flight

        def attempt() -> Fetched:
            nonlocal sent
            try:
                asked, sent = sent or self._send(partition, position), None
                return self._answer(asked, partition, position)
            except ClientError as error:
                if is_retriable(error):
                    self._client.router.invalidate_topics([partition.topic])
                raise

        return self._client.router.retrying(attempt)

    def _send(self, partition: TopicPartition, position: int) -> _InFlight:
        router = self._client.router
        leader = router.leader(partition)
        ids = {partition.topic: router.topic_id(partition.topic)}
        request, version_max = fetch_request({partition: position}, ids, self._fetch_limits)
        return _InFlight(leader, leader.send(request, version_max=version_max), ids)

    def _send_ahead(self, partition: TopicPartition, position: int) -> _InFlight | None:
        try:
            return self._send(partition, position)
        except ClientError:
            # The next `_fetch` meets the same error, or succeeds.
            return None

    def _answer(self, asked: _InFlight, partition: TopicPartition, position: int) -> Fetched:
        """The leader's response. TimedOut if it has no records, though the span goes on."""
        response = asked.leader.answer(asked.number)
        outcomes = fetched(response, asked.ids, str(asked.leader.address))
        found = unwrap(outcomes.get(partition, missing_in_response(partition)))
        if not found.records:
            raise TimedOut(f"{partition} has nothing at offset {position}, where more was expected")
        return found

    def _skip_unreadable(self, partition: TopicPartition, batch: UnreadableBatch) -> None:
        span = UnreadableSpan(partition, *batch)
        if self._on_unreadable is None:
            raise RecordsUnreadable(span)
        self._on_unreadable(span)

    def _skip_gone(self, span: Span, position: int, refused: Refused) -> int:
        """The next position if the offset does not exist. Raises any other error."""
        if refused.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise refused
        begin = self._client.offsets({span.partition: OffsetSpec.EARLIEST})[span.partition]
        end = self._client.offsets({span.partition: OffsetSpec.LATEST})[span.partition]
        if begin <= position <= end:
            raise refused
        following = min(begin, span.end) if begin > position else span.end
        gone = GoneOffsets(span.partition, position, following)
        if self._on_gone is None:
            raise OffsetsGone(gone)
        self._on_gone(gone)
        return following


def _following(batches: Sequence[PlacedBatch], position: int) -> int:
    """The offset after the last batch. CorruptBatch if that is no progress."""
    following = max(header.next_offset for _, header in batches)
    if following <= position:
        raise CorruptBatch(0, f"nothing behind offset {position}, which was asked for")
    return following
