"""Batches with a valid header and checksum, and unreadable records.

The bytes of a client are never taken for a disk error: the partition stays online, and the records
after them are found and read.
"""

import asyncio
import gc
from typing import Any

import pytest

from ottla.broker.requests.record_work import UNITS_PER_TURN, TurnBudget
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import read_header
from ottla.protocol.compression import Codec, compress
from ottla.protocol.messages.list_offsets import ListOffsetsRequest, Partition, Topic
from ottla.storage.admission import work_budget
from ottla.storage.admission.work_budget import BudgetSpent
from tests.sim.seams.loop import run
from tests.sim.seams.threads import SimThreads
from tests.support.broker.produce_and_fetch import (
    NOW_MS,
    batch,
    fetch,
    only,
    produce,
    values,
    wanted,
)
from tests.support.broker.simulated_broker import (
    Client,
    Machine,
    create,
    encoded,
    new_topic,
    with_broker,
)
from tests.support.forged_batches import bomb, forged

TOPIC = "events"
LARGEST = -3
COMPACTED: dict[str, str | None] = {"cleanup.policy": "compact"}
# Decompresses to more than a reader accepts.
TOO_LARGE = bomb(Codec.ZSTD, 130 << 20)


async def send(client: Client, *batches: bytes | bytearray, acks: int = -1) -> list[ErrorCode]:
    """The error code of each batch, one per partition."""
    response = await client.ask(produce(TOPIC, *batches, acks=acks, timeout_ms=60_000), 9)
    (topic,) = response.responses
    return [ErrorCode(each.error_code) for each in topic.partition_responses]


async def offset_at(client: Client, timestamp_ms: int) -> tuple[ErrorCode, int, int]:
    asked = Partition(partition_index=0, timestamp=timestamp_ms)
    request = ListOffsetsRequest(replica_id=-1, topics=(Topic(name=TOPIC, partitions=(asked,)),))
    answer = only(await client.ask(request, 7))
    return ErrorCode(answer.error_code), answer.timestamp, answer.offset


UNREADABLE = {
    "garbage that does not unfold": forged(b"garbage", Codec.ZSTD, timestamp_ms=NOW_MS + 5),
    "garbage that does": forged(
        compress(Codec.LZ4, b"garbage" * 9), Codec.LZ4, timestamp_ms=NOW_MS + 5
    ),
    "more than a reader accepts": bomb(Codec.ZSTD, 130 << 20, timestamp_ms=NOW_MS + 5),
    "a time that no record has": forged(
        compress(Codec.GZIP, b"garbage"), Codec.GZIP, max_timestamp=NOW_MS + 5
    ),
}


@pytest.mark.parametrize("sent", UNREADABLE.values(), ids=UNREADABLE)
def test_a_client_cannot_take_a_partition_offline(sent: bytearray) -> None:
    machine = Machine()

    async def check(client: Client) -> None:
        end = 2 + read_header(sent).count
        assert await offset_at(client, NOW_MS) == (ErrorCode.NONE, NOW_MS, 0)
        # The header's word is taken where the records have none.
        assert await offset_at(client, NOW_MS + 4) == (ErrorCode.NONE, NOW_MS + 5, 1)
        assert (await offset_at(client, NOW_MS + 8)) == (ErrorCode.NONE, NOW_MS + 9, end - 1)
        assert await offset_at(client, LARGEST) == (ErrorCode.NONE, NOW_MS + 9, end - 1)
        answer = only(await client.ask(fetch(TOPIC, wanted(0, end - 1)), 11))
        assert (answer.error_code, values(answer.records)) == (ErrorCode.NONE, [b"last"])

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC))
        assert await send(client, batch(b"first")) == [ErrorCode.NONE]
        assert await send(client, sent) == [ErrorCode.NONE]
        assert await send(client, batch(b"last", timestamp_ms=NOW_MS + 9)) == [ErrorCode.NONE]
        await check(client)
        assert "unreadable batch" in machine.notes.events("warning")

    with_broker(story, machine=machine)
    with_broker(check, machine=machine)


def test_the_largest_timestamp_may_be_that_of_an_unreadable_batch() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC))
        await send(client, batch(b"first"))
        await send(client, forged(b"garbage", Codec.ZSTD, timestamp_ms=NOW_MS + 5))
        assert await offset_at(client, LARGEST) == (ErrorCode.NONE, NOW_MS + 5, 1)

    with_broker(story)


def test_a_wrong_checksum_on_disk_is_a_storage_error() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC))
        await send(client, batch(b"first"))
        (path,) = (
            path for path in machine.disk.files() if path.endswith(f"{TOPIC}-0/{0:020d}.log")
        )
        assert machine.files is not None
        file = machine.files.open(path, writable=True)
        file.write_at(70, [b"\xff"])
        assert (await offset_at(client, NOW_MS))[0] is ErrorCode.KAFKA_STORAGE_ERROR

    with_broker(story, machine=machine)


def test_unreadable_records_are_refused_if_they_are_not_compressed() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC))
        assert await send(client, forged(b"garbage")) == [ErrorCode.INVALID_RECORD]
        assert await send(client, batch(b"a")) == [ErrorCode.NONE]
        assert await offset_at(client, NOW_MS) == (ErrorCode.NONE, NOW_MS, 0)

    with_broker(story)


# Work on the loop


class CountedThreads(SimThreads):
    """Threads that count concurrent work."""

    running = 0
    most = 0
    runs = 0

    async def run(self, work: Any) -> Any:
        def counted() -> Any:
            CountedThreads.runs += 1
            return work()

        CountedThreads.running += 1
        CountedThreads.most = max(CountedThreads.most, CountedThreads.running)
        try:
            return await super().run(counted)
        finally:
            CountedThreads.running -= 1


def unfolded_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The decompressed bytes of each batch that is decompressed on the event loop."""
    spent: list[int] = []
    plain_records = work_budget.plain_records

    def noted(content: Any, *, decompressed_bytes_max: int) -> Any:
        body = plain_records(content, decompressed_bytes_max=decompressed_bytes_max)
        if decompressed_bytes_max <= UNITS_PER_TURN:
            spent.append(len(body))
        return body

    monkeypatch.setattr(work_budget, "plain_records", noted)
    return spent


def test_bombs_for_a_compacted_topic_are_decompressed_in_a_thread_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.support.broker.simulated_broker.SimThreads", CountedThreads)
    CountedThreads.most = CountedThreads.runs = 0
    spent = unfolded_on_the_loop(monkeypatch)
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC, 8, configs=COMPACTED))
        others = [await machine.client() for _ in range(3)]
        sent = [bomb(Codec.ZSTD, 20 << 20) for _ in range(8)]
        codes = await asyncio.gather(*(send(each, *sent) for each in (client, *others)))
        assert codes == [[ErrorCode.NONE] * 8] * 4
        for each in others:
            each.close()

    with_broker(story, machine=machine)
    assert sum(spent) == 0, "nothing that large is unfolded on the loop"
    assert CountedThreads.runs >= 4 * 8
    assert CountedThreads.most == 1


def test_batches_with_little_decompressed_data_are_appended_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent = unfolded_on_the_loop(monkeypatch)

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC, 4, configs=COMPACTED))
        sent = [batch(bytes(1000), key=b"k", codec=Codec.GZIP) for _ in range(4)]
        assert await send(client, *sent) == [ErrorCode.NONE] * 4

    with_broker(story)
    assert len(spent) == 4


def test_a_bomb_for_a_compacted_topic_is_refused_and_the_rest_of_its_request_is_appended() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC, 3, configs=COMPACTED))
        sent = [batch(b"a", key=b"k"), TOO_LARGE, batch(b"b", key=b"k")]
        codes = [ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE]
        assert await send(client, *sent) == codes

    with_broker(story)


def test_requests_without_acks_keep_their_order_though_some_wait_for_a_thread() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC, configs=COMPACTED))
        large = batch(bytes(20 << 20), key=b"k", codec=Codec.ZSTD)
        for sent in (large, batch(b"b", key=b"k"), large, batch(b"d", key=b"k")):
            request = produce(TOPIC, sent, acks=0)
            await client.send(request, 9)
        assert await send(client, batch(b"e", key=b"k")) == [ErrorCode.NONE]
        answer = only(await client.ask(fetch(TOPIC, wanted(0, 0, bytes_max=1 << 30)), 11))
        sizes = [len(value or b"") for value in values(answer.records)]
        assert sizes == [20 << 20, 1, 20 << 20, 1, 1]

    with_broker(story)


def test_small_requests_without_acks_keep_their_order_though_they_wait_for_a_thread() -> None:
    """Each is small enough to be gathered, and decompresses beyond the budget."""

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC, configs=COMPACTED))
        sizes = [size << 20 for size in (20, 1, 21, 2, 22)]
        sent = [batch(bytes(size), key=b"k", codec=Codec.ZSTD) for size in sizes]
        assert max(map(len, sent)) < 4 << 10
        # After the first, the broker gathers this client's requests without acks.
        silent = [produce(TOPIC, batch(b"a", key=b"k"), acks=0)]
        silent += [produce(TOPIC, each, acks=0) for each in sent]
        last = produce(TOPIC, batch(b"e", key=b"k"))
        await client.exchange(b"".join(encoded(each, 9) for each in (*silent, last)))
        answer = only(await client.ask(fetch(TOPIC, wanted(0, 0, bytes_max=1 << 30)), 11))
        assert [len(value or b"") for value in values(answer.records)] == [1, *sizes, 1]

    with_broker(story)


def test_a_batch_that_waits_is_not_overwritten_by_another_client() -> None:
    """All connections share the receive buffer."""
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC, 2, configs=COMPACTED))
        other = await machine.client()
        waiting = asyncio.create_task(send(client, bomb(Codec.ZSTD, 20 << 20)))
        await asyncio.sleep(0)
        for _ in range(20):
            await other.ask(produce(TOPIC, batch(bytes(3000), key=b"x"), partition=1), 9)
        assert await waiting == [ErrorCode.NONE]
        answer = only(await client.ask(fetch(TOPIC, wanted(0, 0, bytes_max=1 << 30)), 11))
        assert [len(value or b"") for value in values(answer.records)] == [20 << 20]
        other.close()

    with_broker(story, machine=machine)


def test_a_client_that_disconnects_while_its_batch_waits_has_no_effect() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC, configs=COMPACTED))
        for _ in range(5):
            other = await machine.client()
            await other.send(produce(TOPIC, bomb(Codec.ZSTD, 20 << 20)), 9)
            await asyncio.sleep(0.0001)
            other.close()
        assert await send(client, bomb(Codec.ZSTD, 20 << 20)) == [ErrorCode.NONE]

    with_broker(story, machine=machine)


def test_batches_that_wait_for_a_thread_are_bounded_for_all_clients_together() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC, configs=COMPACTED))
        others = [await machine.client() for _ in range(6)]
        sent = bomb(Codec.ZSTD, 20 << 20)
        codes = await asyncio.gather(*(send(each, sent) for each in others))
        flat = [code for each in codes for code in each]
        assert set(flat) == {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT}
        assert await send(client, sent) == [ErrorCode.NONE]
        for each in others:
            each.close()

    size = str(2 * len(bomb(Codec.ZSTD, 20 << 20)) + 500)
    with_broker(
        story, machine=machine, queued_max_request_bytes=size, socket_request_max_bytes=size
    )


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topics_codec_applies_in_a_thread_as_on_the_loop(name: str) -> None:
    codec = Codec.NONE if name == "uncompressed" else Codec[name.upper()]

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC, configs={"compression.type": name}))
        for size, sent_codec in ((10, Codec.GZIP), (900_000, Codec.NONE), (900_000, Codec.ZSTD)):
            sent = batch(bytes(size), codec=sent_codec)
            assert await send(client, sent) == [ErrorCode.NONE]
        answer = only(await client.ask(fetch(TOPIC, wanted(0, 0, bytes_max=1 << 30)), 11))
        assert [len(each or b"") for each in values(answer.records)] == [10, 900_000, 900_000]
        position, codecs = 0, []
        while position < len(answer.records):
            header = read_header(answer.records, position)
            codecs.append(header.codec)
            position += header.size
        assert codecs == [codec] * 3

    with_broker(story)


def test_a_refused_batch_is_freed_without_the_garbage_collector() -> None:
    """An error with a traceback and its stack frames refer to each other."""

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC))
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            assert await send(client, forged(b"garbage")) == [ErrorCode.INVALID_RECORD]
            await asyncio.sleep(0.01)
            gc.collect()
            assert [each for each in gc.garbage if isinstance(each, PeerError | memoryview)] == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    with_broker(story)


def test_record_errors_name_just_the_records_at_fault() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC, configs=COMPACTED))
        mixed = batch(b"a", b"b", b"c")
        response = await client.ask(produce(TOPIC, mixed), 9)
        answer = only(response)
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in answer.record_errors] == [0, 1, 2]
        assert all(each.batch_index_error_message for each in answer.record_errors)

    with_broker(story)


def test_a_search_by_time_among_many_batches_lets_others_have_their_turn() -> None:
    """Batches whose header claims a timestamp that no record has must all be read."""
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic(TOPIC))
        lie = batch(bytes(3 << 20), codec=Codec.ZSTD)
        for _ in range(5):
            forged_time = forged(bytes(lie[61:]), Codec.ZSTD, count=1, max_timestamp=NOW_MS + 50)
            assert await send(client, forged_time) == [ErrorCode.NONE]
        other = await machine.client()
        search = asyncio.create_task(offset_at(client, NOW_MS + 40))
        await asyncio.sleep(0)
        assert await send(other, batch(b"x")) == [ErrorCode.NONE]
        assert not search.done()
        assert await search == (ErrorCode.NONE, -1, -1)
        assert await offset_at(client, LARGEST) == (ErrorCode.NONE, NOW_MS + 50, 0)
        other.close()

    with_broker(story, machine=machine)


def test_the_budget_is_refilled_in_the_next_turn() -> None:
    async def story() -> None:
        budget = TurnBudget(100_000)
        budget.spend_on_reading(12_000)
        with pytest.raises(BudgetSpent):
            budget.spend_on_reading(2_000)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        budget.spend_on_reading(12_000)
        assert budget.units_left == 100_000 - 8 * 12_000

    run(story())
