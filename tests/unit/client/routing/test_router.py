"""Requests find the right broker, and find it again after it moved."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.errors import ClientError, Refused, TimedOut, Unreachable
from ottla.client.reading.offsets import ListedOffset, list_offsets
from ottla.errors import ErrorCode
from ottla.protocol.messages import list_offsets as messages
from ottla.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    TopicResult,
)
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run
from tests.support.client.fake_cluster import FakeBroker, FakeCluster


def with_cluster(story: Callable[[FakeCluster], Awaitable[None]], brokers: int = 2) -> None:
    async def tell() -> None:
        async with FakeCluster(brokers) as cluster:
            cluster.answer_everywhere("ListOffsets", lambda broker: offsets_of(cluster, broker))
            await story(cluster)

    run(tell())


def offsets_of(cluster: FakeCluster, broker: FakeBroker) -> Callable[[Any, int], Any]:
    """A broker answers for the partitions that it leads, with an offset made of both numbers."""

    def answer(request: messages.ListOffsetsRequest, version: int) -> Any:
        return messages.ListOffsetsResponse(
            topics=tuple(
                messages.TopicResult(
                    name=topic.name,
                    partitions=tuple(
                        partition_result(topic.name, each.partition_index)
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    def partition_result(topic: str, number: int) -> messages.PartitionResult:
        leads = cluster.leaders.get(topic, [])[number : number + 1] == [broker.node_id]
        return messages.PartitionResult(
            partition_index=number,
            error_code=0 if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER,
            offset=broker.node_id * 100 + number if leads else -1,
        )

    return answer


def ends(*names: tuple[str, int]) -> dict[TopicPartition, int]:
    return {TopicPartition(*name): OffsetSpec.LATEST for name in names}


def test_each_leader_gets_one_request_for_all_its_partitions() -> None:
    async def story(cluster: FakeCluster) -> None:
        cluster.leaders = {"a": [1, 2, 1], "b": [2]}
        async with cluster.router() as router:
            listed = await list_offsets(router, ends(("a", 0), ("a", 1), ("a", 2), ("b", 0)))
        assert listed == {
            TopicPartition("a", 0): ListedOffset(100, -1),
            TopicPartition("a", 1): ListedOffset(201, -1),
            TopicPartition("a", 2): ListedOffset(102, -1),
            TopicPartition("b", 0): ListedOffset(200, -1),
        }
        assert [len(b.asked_for("ListOffsets")) for b in cluster.brokers.values()] == [1, 1]

    with_cluster(story)


def test_a_partition_whose_leader_moved_is_retried_at_the_new_leader() -> None:
    async def story(cluster: FakeCluster) -> None:
        cluster.leaders = {"a": [1, 1]}
        async with cluster.router() as router:
            await router.refresh(["a"])
            cluster.leaders = {"a": [1, 2]}
            listed = await list_offsets(router, ends(("a", 0), ("a", 1)))
        assert [listed[TopicPartition("a", number)] for number in (0, 1)] == [
            ListedOffset(100, -1),
            ListedOffset(201, -1),
        ]
        # Partitions with a result are not requested again.
        (_, again) = cluster.brokers[2].asked_for("ListOffsets")[0]
        assert [each.partition_index for each in again.topics[0].partitions] == [1]

    with_cluster(story)


def test_a_partition_whose_leader_died_is_retried_until_it_has_a_new_one() -> None:
    async def story(cluster: FakeCluster) -> None:
        cluster.leaders = {"a": [2]}
        async with cluster.router() as router:
            await router.refresh(["a"])
            await cluster.brokers[2].stop()

            async def elect() -> None:
                await asyncio.sleep(3)
                cluster.leaders = {"a": [1]}

            election = asyncio.create_task(elect())
            listed = await list_offsets(router, ends(("a", 0)))
            await election
        assert listed[TopicPartition("a", 0)] == ListedOffset(100, -1)

    with_cluster(story)


def test_a_partition_without_a_new_leader_is_an_error_after_the_timeout() -> None:
    async def story(cluster: FakeCluster) -> None:
        cluster.leaders = {"a": [1, 2]}
        async with cluster.router(default_api_timeout_ms=5000) as router:
            await cluster.brokers[2].stop()
            started = asyncio.get_running_loop().time()
            listed = await list_offsets(router, ends(("a", 0), ("a", 1)))
            assert 4 < asyncio.get_running_loop().time() - started <= 5
        assert listed[TopicPartition("a", 0)] == ListedOffset(100, -1)
        failed = listed[TopicPartition("a", 1)]
        assert isinstance(failed, Unreachable)
        assert "broker 2 says that it is at b2:9092" in str(failed)

    with_cluster(story)


def test_a_topic_that_appears_late_is_found() -> None:
    async def story(cluster: FakeCluster) -> None:
        async def create() -> None:
            await asyncio.sleep(1)
            cluster.leaders["new"] = [1, 2]

        creation = asyncio.create_task(create())
        async with cluster.router() as router:
            topic = await router.topic("new", may_create=True)
        await creation
        assert [partition.leader for partition in topic.partitions] == [1, 2]
        assert cluster.brokers[1].asked_for("Metadata")[0][1].allow_auto_topic_creation

    with_cluster(story)


def test_an_unknown_topic_is_an_error_after_the_grace_period() -> None:
    async def story(cluster: FakeCluster) -> None:
        async with cluster.router(unknown_topic_grace_ms=1000) as router:
            started = asyncio.get_running_loop().time()
            with pytest.raises(Refused, match="topic no: UNKNOWN_TOPIC_OR_PARTITION"):
                await router.topic("no")
            assert asyncio.get_running_loop().time() - started <= 1
            listed = await list_offsets(router, ends(("no", 0)))
        outcome = listed[TopicPartition("no", 0)]
        assert isinstance(outcome, Refused)
        assert outcome.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not cluster.brokers[1].asked_for("Metadata")[0][1].allow_auto_topic_creation

    with_cluster(story)


def test_a_partition_beyond_the_last_is_unknown() -> None:
    async def story(cluster: FakeCluster) -> None:
        cluster.leaders = {"a": [1]}
        async with cluster.router(unknown_topic_grace_ms=0) as router:
            listed = await list_offsets(router, ends(("a", 1)))
        assert str(listed[TopicPartition("a", 1)]) == ("partition a-1: UNKNOWN_TOPIC_OR_PARTITION")

    with_cluster(story)


def test_a_topic_without_a_leader_is_waited_for() -> None:
    async def story(cluster: FakeCluster) -> None:
        cluster.leaders = {"a": [-1]}
        async with cluster.router(default_api_timeout_ms=2000) as router:
            with pytest.raises(Refused, match="a-0: LEADER_NOT_AVAILABLE"):
                await router.topic("a")

    with_cluster(story)


def test_before_the_first_connection_an_error_of_the_router_is_final() -> None:
    async def story(cluster: FakeCluster) -> None:
        for broker in cluster.brokers.values():
            await broker.stop()
        async with cluster.router("b1", "b2") as router:
            started = asyncio.get_running_loop().time()
            with pytest.raises(Unreachable, match=r"b1:9092: .*refused.*; b2:9092: .*refused"):
                await router.topic("a")
            assert asyncio.get_running_loop().time() - started < 1

    with_cluster(story)


def test_one_reachable_bootstrap_address_is_enough() -> None:
    async def story(cluster: FakeCluster) -> None:
        await cluster.brokers[1].stop()
        cluster.leaders = {"a": [2]}
        async with cluster.router("b1", "b2") as router:
            assert (await router.topic("a")).name == "a"

    with_cluster(story)


def test_a_request_to_a_restarting_broker_is_retried() -> None:
    async def story(cluster: FakeCluster) -> None:
        cluster.leaders = {"a": [1]}
        async with cluster.router() as router:
            await router.topic("a")
            await cluster.brokers[1].stop()

            async def restart() -> None:
                await asyncio.sleep(4)
                await cluster.brokers[1].listen(cluster.network.host("b1"))

            restarting = asyncio.create_task(restart())
            listed = await list_offsets(router, ends(("a", 0)))
            await restarting
        assert listed[TopicPartition("a", 0)] == ListedOffset(100, -1)

    with_cluster(story, brokers=1)


def test_a_partition_missing_in_a_leaders_response_is_an_error() -> None:
    async def story(cluster: FakeCluster) -> None:
        cluster.leaders = {"a": [1]}
        empty = messages.ListOffsetsResponse(topics=())
        cluster.answer_everywhere("ListOffsets", lambda broker: lambda request, version: empty)
        async with cluster.router() as router:
            listed = await list_offsets(router, ends(("a", 0)))
        assert "lacks it" in str(listed[TopicPartition("a", 0)])

    with_cluster(story)


def test_the_controller_is_looked_up_again_after_it_moved() -> None:
    async def story(cluster: FakeCluster) -> None:
        def create(broker: FakeBroker) -> Callable[[Any, int], Any]:
            def answer(request: CreateTopicsRequest, version: int) -> CreateTopicsResponse:
                cluster.controller = 2
                code = 0 if broker.node_id == 2 else ErrorCode.NOT_CONTROLLER
                result = TopicResult(name="a", error_code=code, error_message=broker.name)
                return CreateTopicsResponse(topics=(result,))

            return answer

        cluster.answer_everywhere("CreateTopics", create)
        async with cluster.router() as router:
            answer = await router.ask_controller(
                CreateTopicsRequest(topics=()), lambda answer: [answer.topics[0].error_code]
            )
        assert answer.topics[0].error_message == "b2"

    with_cluster(story)


def test_no_controller_is_an_error_after_the_timeout() -> None:
    async def story(cluster: FakeCluster) -> None:
        cluster.controller = -1
        async with cluster.router(default_api_timeout_ms=1000) as router:
            with pytest.raises(Refused, match="no controller now: NOT_CONTROLLER"):
                await router.ask_controller(CreateTopicsRequest(topics=()), lambda answer: [])

    with_cluster(story)


def test_the_api_timeout_ends_a_request_to_a_broker_that_hangs() -> None:
    async def story(cluster: FakeCluster) -> None:
        async with cluster.router(default_api_timeout_ms=1000) as router:
            await router.any_broker()
            cluster.network.partition("client", "b1")
            with pytest.raises(TimedOut, match="no answer within 1000 ms"):
                await router.topic("a")
            cluster.network.heal()

    with_cluster(story)


def test_an_unknown_broker_id_is_refused() -> None:
    async def story(cluster: FakeCluster) -> None:
        async with cluster.router() as router:
            with pytest.raises(ClientError, match="broker 9: BROKER_NOT_AVAILABLE"):
                await router.broker(9)
            assert (await router.broker(2)).address == cluster.brokers[2].address

    with_cluster(story)
