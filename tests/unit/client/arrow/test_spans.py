"""Spans of offsets: fetches, their order, and errors of leaders."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.arrow.spans import OffsetsGone, RecordsUnreadable, Span, SpanReader
from ottla.client.blocking.client import BlockingClient
from ottla.client.errors import Refused, TimedOut
from ottla.client.reading.partition_reader import GoneOffsets, UnreadableSpan
from ottla.errors import ErrorCode
from ottla.protocol.batch import CorruptBatch, Record, build
from ottla.protocol.compression import Codec
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages import fetch, list_offsets
from ottla.protocol.topic_partition import TopicPartition
from tests.support.client.fake_blocking import FakeBlocking
from tests.support.client.fake_cluster import FakeBroker, FakeCluster
from tests.support.forged_batches import forged

ORDERS = TopicPartition("orders", 0)
BATCH_RECORDS = 10


def batch_at(offset: int) -> bytes:
    records = [Record(offset + n, 1, None, b"%d" % (offset + n)) for n in range(BATCH_RECORDS)]
    return bytes(build(records, base_offset=offset))


class Orders:
    """A cluster whose partition `orders-0` has batches of ten records, one batch per fetch."""

    def __init__(self, brokers: int = 1, *, begin: int = 0, end: int = 100) -> None:
        self.begin, self.end = begin, end
        self.cluster = FakeCluster(brokers=brokers)
        self.cluster.leaders = {"orders": [1]}
        # Responses that replace the real ones, one per fetch.
        self.instead: list[Callable[[int], fetch.PartitionResult | None]] = []
        self.cluster.answer_everywhere("Fetch", self._fetching)
        self.cluster.answer_everywhere("ListOffsets", lambda _: self._list_offsets)
        self.blocking = FakeBlocking(self.cluster)

    def client(self, **options: int) -> BlockingClient:
        return self.blocking.client(**options)

    def fetched_offsets(self, broker: int = 1) -> list[int]:
        asked = self.cluster.brokers[broker].asked_for("Fetch")
        return [request.topics[0].partitions[0].fetch_offset for _, request in asked]

    def _fetching(self, broker: FakeBroker) -> Callable[[Any, int], Any]:
        def answer(request: Any, version: int) -> fetch.FetchResponse | None:
            offset = request.topics[0].partitions[0].fetch_offset
            if self.cluster.leaders["orders"][0] != broker.node_id:
                result: fetch.PartitionResult | None = refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif self.instead:
                result = self.instead.pop(0)(offset)
            elif not self.begin <= offset <= self.end:
                result = refused(ErrorCode.OFFSET_OUT_OF_RANGE)
            else:
                result = sent(batch_at(offset - offset % BATCH_RECORDS))
            if result is None:
                return None
            [topic] = request.topics
            named = fetch.TopicResult(
                topic=topic.topic, topic_id=topic.topic_id, partitions=(result,)
            )
            return fetch.FetchResponse(responses=(named,))

        return answer

    def _list_offsets(self, request: Any, version: int) -> list_offsets.ListOffsetsResponse:
        spec = request.topics[0].partitions[0].timestamp
        found = list_offsets.PartitionResult(
            partition_index=0, error_code=0, offset=self.begin if spec == -2 else self.end
        )
        topic = list_offsets.TopicResult(name="orders", partitions=(found,))
        return list_offsets.ListOffsetsResponse(topics=(topic,))


def sent(records: bytes) -> fetch.PartitionResult:
    return fetch.PartitionResult(
        partition_index=0, error_code=0, high_watermark=0, aborted_transactions=(), records=records
    )


def refused(code: ErrorCode) -> fetch.PartitionResult:
    return fetch.refused_partition(0, code)


def values(reader: SpanReader, start: int, end: int) -> list[int]:
    return [
        int(value.as_py())
        for batch in reader.read(Span(ORDERS, start, end))
        for value in batch.column("value")
    ]


def test_a_span_is_read_from_the_middle_of_a_batch_to_the_middle_of_another() -> None:
    orders = Orders()
    assert values(SpanReader(orders.client()), 7, 33) == list(range(7, 33))
    assert orders.fetched_offsets() == [7, 10, 20, 30]


def test_the_next_fetch_is_in_flight_while_a_batch_is_decoded() -> None:
    orders = Orders()
    reading = SpanReader(orders.client()).read(Span(ORDERS, 0, 30))
    assert next(reading).num_rows == 10
    assert orders.fetched_offsets() == [0, 10]
    assert next(reading).num_rows == 10
    assert orders.fetched_offsets() == [0, 10, 20]


def test_an_iterator_closed_early_leaves_a_usable_connection() -> None:
    orders = Orders()
    client = orders.client()
    reader = SpanReader(client)
    for _ in range(8):
        reading = reader.read(Span(ORDERS, 0, 30))
        next(reading)
        reading.close()  # type: ignore[attr-defined]
    assert values(reader, 90, 100) == list(range(90, 100))
    assert len(orders.blocking.streams) == 1


def test_an_empty_span_sends_no_fetch() -> None:
    orders = Orders()
    assert values(SpanReader(orders.client()), 5, 5) == []
    assert orders.blocking.streams == []


def test_fetches_have_the_isolation_level() -> None:
    orders = Orders()
    values(SpanReader(orders.client(), isolation=Isolation.READ_COMMITTED), 0, 10)
    [(_, request)] = orders.cluster.brokers[1].asked_for("Fetch")
    assert request.isolation_level == Isolation.READ_COMMITTED


def test_batches_without_rows_advance_the_position() -> None:
    orders = Orders()
    cleaned = bytes(build([], base_offset=0, last_offset_delta=49))
    orders.instead = [lambda _: sent(cleaned)]
    assert values(SpanReader(orders.client()), 0, 60) == list(range(50, 60))


def test_a_leader_that_moves_between_fetches_is_followed() -> None:
    orders = Orders(brokers=2)
    reading = SpanReader(orders.client()).read(Span(ORDERS, 0, 40))
    next(reading)
    orders.cluster.leaders = {"orders": [2]}
    rest = [value.as_py() for batch in reading for value in batch.column("offset")]
    assert rest == list(range(10, 40))
    assert orders.fetched_offsets(2) == [20, 30]


def test_a_lost_connection_is_opened_again() -> None:
    orders = Orders()
    reading = SpanReader(orders.client()).read(Span(ORDERS, 0, 30))
    next(reading)
    orders.blocking.streams[0].is_broken = True
    assert sum(batch.num_rows for batch in reading) == 20
    assert len(orders.blocking.streams) == 2


def test_an_empty_response_inside_a_span_times_out_in_the_end() -> None:
    orders = Orders()
    orders.instead = [lambda _: sent(b"")] * 3
    assert values(SpanReader(orders.client()), 0, 10) == list(range(10))
    assert len(orders.blocking.pauses_ms) == 3
    orders.instead = [lambda _: sent(b"")] * 1000
    with pytest.raises(TimedOut, match="orders-0 has nothing at offset 20"):
        values(SpanReader(orders.client(default_api_timeout_ms=5000)), 20, 30)


def test_a_response_from_before_the_position_is_corrupt() -> None:
    orders = Orders()
    orders.instead = [lambda _: sent(batch_at(0))]
    with pytest.raises(CorruptBatch, match="nothing behind offset 50"):
        values(SpanReader(orders.client()), 50, 60)


def test_records_before_a_corrupt_batch_are_read() -> None:
    orders = Orders()
    damaged = bytearray(batch_at(10))
    damaged[-3] ^= 0x10
    orders.instead = [lambda _: sent(batch_at(0)), lambda _: sent(bytes(damaged))]
    reading = SpanReader(orders.client()).read(Span(ORDERS, 0, 30))
    assert next(reading).num_rows == 10
    with pytest.raises(CorruptBatch, match="checksum"):
        next(reading)


def test_deleted_offsets_raise_offsets_gone() -> None:
    orders = Orders(begin=40)
    with pytest.raises(OffsetsGone, match="offsets 5 to 39 are not there any more") as caught:
        values(SpanReader(orders.client()), 5, 60)
    assert caught.value.gone == GoneOffsets(ORDERS, 5, 40)


def test_with_on_gone_reading_continues_after_deleted_offsets() -> None:
    orders = Orders(begin=40)
    told: list[GoneOffsets] = []
    reader = SpanReader(orders.client(), on_gone=told.append)
    assert values(reader, 5, 60) == list(range(40, 60))
    assert values(reader, 5, 30) == []
    assert told == [GoneOffsets(ORDERS, 5, 40), GoneOffsets(ORDERS, 5, 30)]


def forged_at(offset: int) -> bytes:
    """A batch of ten offsets that cannot be read, between two that can."""
    garbage = forged(b"garbage", Codec.ZSTD, count=10, base_offset=offset)
    return batch_at(offset - 10) + bytes(garbage) + batch_at(offset + 10)


def test_an_unreadable_batch_is_raised_after_the_records_before_it() -> None:
    orders = Orders()
    orders.instead = [lambda _: sent(forged_at(10))]
    reading = SpanReader(orders.client()).read(Span(ORDERS, 0, 30))
    assert next(reading).num_rows == 10
    with pytest.raises(RecordsUnreadable, match=r"offsets 10 to 19 .*from offset 20") as caught:
        next(reading)
    assert (caught.value.span.partition, caught.value.span.next_offset) == (ORDERS, 20)


def test_with_on_unreadable_reading_continues_after_the_batch() -> None:
    orders = Orders()
    orders.instead = [lambda _: sent(forged_at(10))]
    told: list[UnreadableSpan] = []
    reader = SpanReader(orders.client(), on_unreadable=told.append)
    assert values(reader, 0, 30) == [*range(10), *range(20, 30)]
    assert [(each.first_offset, each.next_offset) for each in told] == [(10, 20)]


def test_another_error_is_not_taken_for_gone_offsets() -> None:
    orders = Orders()
    orders.instead = [lambda _: refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
        values(SpanReader(orders.client(), on_gone=lambda _: None), 0, 10)
