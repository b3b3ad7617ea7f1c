"""Produce and fetch, by topic name and by topic id, while leaders move."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.errors import Refused
from ottla.client.producer.send import produce
from ottla.client.reading.fetch import FetchLimits
from ottla.client.reading.partition_reader import GoneOffsets, PartitionReader
from ottla.errors import ErrorCode
from ottla.protocol.acks import Acks
from ottla.protocol.batch import Record, build, read_header
from ottla.protocol.messages import fetch as fetching
from ottla.protocol.messages import list_offsets as listing
from ottla.protocol.messages import produce as producing
from ottla.protocol.primitives import NO_OFFSET, ZERO_UUID
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run
from tests.support.client.fake_cluster import FakeBroker, FakeCluster
from tests.support.protocol.stamping import stamp

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


class Logs:
    """The logs of a fake cluster: batches by partition, and log start offsets."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.batches: dict[int, list[bytes]] = {0: [], 1: []}
        self.begin = 0
        cluster.leaders = {"a": [1, 2]}
        cluster.answer_everywhere("Produce", lambda broker: self._producer(broker))
        cluster.answer_everywhere("Fetch", lambda broker: self._fetcher(broker))
        cluster.answer_everywhere("ListOffsets", lambda broker: self._begin)

    def end(self, partition: int) -> int:
        kept = self.batches[partition]
        return read_header(kept[-1]).next_offset if kept else 0

    def append(self, partition: int, *values: bytes) -> None:
        batch = build([Record(index, 1, None, value) for index, value in enumerate(values)])
        stamp(batch, self.end(partition), 0)
        self.batches[partition].append(bytes(batch))

    def _leads(self, broker: FakeBroker, partition: int) -> int:
        leads = self.cluster.leaders["a"][partition] == broker.node_id
        return 0 if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _producer(self, broker: FakeBroker) -> Callable[[Any, int], Any]:
        def store(each: producing.Partition) -> producing.PartitionResult:
            code = self._leads(broker, each.index)
            offset = self.end(each.index)
            if not code:
                batch = bytearray(each.records or b"")
                stamp(batch, offset, 0)
                self.batches[each.index].append(bytes(batch))
            return producing.PartitionResult(
                index=each.index, error_code=code, base_offset=-1 if code else offset
            )

        def answer(request: producing.ProduceRequest, version: int) -> Any:
            (topic,) = request.topic_data
            result = producing.TopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(store(each) for each in topic.partition_data),
            )
            response = producing.ProduceResponse(responses=(result,))
            return None if request.acks == 0 else response

        return answer

    def _fetcher(self, broker: FakeBroker) -> Callable[[Any, int], Any]:
        def read(each: fetching.Partition) -> fetching.PartitionResult:
            code = self._leads(broker, each.partition)
            if not code and not self.begin <= each.fetch_offset <= self.end(each.partition):
                code = ErrorCode.OFFSET_OUT_OF_RANGE
            if code:
                return fetching.refused_partition(each.partition, ErrorCode(code))
            found = [
                batch
                for batch in self.batches[each.partition]
                if read_header(batch).next_offset > each.fetch_offset
            ]
            return fetching.PartitionResult(
                partition_index=each.partition,
                error_code=0,
                high_watermark=self.end(each.partition),
                aborted_transactions=None,
                records=b"".join(found),
            )

        async def answer(request: fetching.FetchRequest, version: int) -> Any:
            (topic,) = request.topics
            results = tuple(read(each) for each in topic.partitions)
            if not any(each.records or each.error_code for each in results):
                await asyncio.sleep(request.max_wait_ms / 1e3)
            result = fetching.TopicResult(
                topic=topic.topic, topic_id=topic.topic_id, partitions=results
            )
            return fetching.FetchResponse(responses=(result,))

        return answer

    def _begin(self, request: listing.ListOffsetsRequest, version: int) -> Any:
        (topic,) = request.topics
        results = tuple(
            listing.PartitionResult(
                partition_index=each.partition_index, error_code=0, offset=self.begin
            )
            for each in topic.partitions
        )
        result = listing.TopicResult(name=topic.name, partitions=results)
        return listing.ListOffsetsResponse(topics=(result,))


def with_logs(story: Callable[[Logs], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with FakeCluster(2) as cluster:
            await story(Logs(cluster))

    run(tell())


def batch_of(*values: bytes) -> bytearray:
    return build([Record(index, 1, None, value) for index, value in enumerate(values)])


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def test_batches_go_to_their_leaders_and_come_back_in_order() -> None:
    async def story(logs: Logs) -> None:
        async with logs.cluster.router() as router:
            sent = await produce(router, {A0: batch_of(b"x", b"y"), A1: batch_of(b"z")}, Acks.ALL)
            assert sent == {A0: 0, A1: 0}
            again = await produce(router, {A0: batch_of(b"w")}, Acks.LEADER)
            assert again == {A0: 2}
            reader = PartitionReader(router, {A0: 1, A1: 0}, FetchLimits())
            brought = await reader.read()
        assert {each: values(records) for each, records in brought.records.items()} == {
            A0: [b"y", b"w"],
            A1: [b"z"],
        }
        assert reader.positions == {A0: 3, A1: 1}

    with_logs(story)


@pytest.mark.parametrize(
    ("has_ids", "produced_in", "fetched_in"), [(True, 13, 18), (False, 12, 12)]
)
def test_topics_are_named_by_id_if_the_broker_gives_ids(
    has_ids: bool, produced_in: int, fetched_in: int
) -> None:
    async def story(logs: Logs) -> None:
        if not has_ids:
            logs.cluster.topic_id = ZERO_UUID
        async with logs.cluster.router() as router:
            await produce(router, {A0: batch_of(b"x")}, Acks.ALL)
            await PartitionReader(router, {A0: 0}, FetchLimits()).read()
        broker = logs.cluster.brokers[1]
        assert [version for version, _ in broker.asked_for("Produce")] == [produced_in]
        assert [version for version, _ in broker.asked_for("Fetch")] == [fetched_in]

    with_logs(story)


def test_without_acks_there_are_no_offsets() -> None:
    async def story(logs: Logs) -> None:
        async with logs.cluster.router() as router:
            assert await produce(router, {A0: batch_of(b"x")}, Acks.NONE) == {A0: NO_OFFSET}
            # The response to the next request shows that the broker has handled the produce.
            await router.refresh(["a"])
        assert logs.end(0) == 1

    with_logs(story)


def test_a_batch_follows_its_leader() -> None:
    async def story(logs: Logs) -> None:
        async with logs.cluster.router() as router:
            await router.refresh(["a"])
            logs.cluster.leaders = {"a": [2, 2]}
            assert await produce(router, {A0: batch_of(b"x")}, Acks.ALL) == {A0: 0}
            assert values(
                (await PartitionReader(router, {A0: 0}, FetchLimits()).read()).records[A0]
            ) == [b"x"]

    with_logs(story)


def test_each_batch_is_appended_or_refused_by_itself() -> None:
    async def story(logs: Logs) -> None:
        def refuse(request: producing.ProduceRequest, version: int) -> Any:
            return producing.refuse(
                request,
                producing.Refusal(version, ErrorCode.MESSAGE_TOO_LARGE, "at most 10 bytes"),
            )

        logs.cluster.brokers[2].answers["Produce"] = refuse
        async with logs.cluster.router() as router:
            sent = await produce(router, {A0: batch_of(b"x"), A1: batch_of(b"y")}, Acks.ALL)
        assert sent[A0] == 0
        assert isinstance(sent[A1], Refused)
        assert str(sent[A1]) == "records for a-1: MESSAGE_TOO_LARGE: at most 10 bytes"

    with_logs(story)


def test_a_reader_at_the_end_waits_for_max_wait_ms() -> None:
    async def story(logs: Logs) -> None:
        async with logs.cluster.router() as router:
            reader = PartitionReader(router, {A0: 0, A1: 0}, FetchLimits(max_wait_ms=700))
            started = asyncio.get_running_loop().time()
            assert await reader.read() == ({}, [], [])
            assert asyncio.get_running_loop().time() - started == pytest.approx(0.7, abs=0.1)

    with_logs(story)


def test_deleted_records_are_reported_and_skipped() -> None:
    async def story(logs: Logs) -> None:
        for number in range(5):
            logs.append(0, b"%d" % number)
        logs.begin = 3
        logs.batches[0] = logs.batches[0][3:]
        async with logs.cluster.router() as router:
            reader = PartitionReader(router, {A0: 1}, FetchLimits())
            assert (await reader.read()).gone == [GoneOffsets(A0, 1, 3)]
            assert values((await reader.read()).records[A0]) == [b"3", b"4"]

    with_logs(story)


def test_a_position_behind_the_end_is_an_error() -> None:
    async def story(logs: Logs) -> None:
        async with logs.cluster.router() as router:
            with pytest.raises(Refused, match="fetch of a-0: OFFSET_OUT_OF_RANGE"):
                await PartitionReader(router, {A0: 9}, FetchLimits()).read()

    with_logs(story)
