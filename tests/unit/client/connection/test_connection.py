"""One connection to one broker, and every way in which it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.address import Address
from ottla.client.connection.connection import Connection, connect
from ottla.client.errors import ConnectionLost, TimedOut, Unreachable, UnsupportedByBroker
from ottla.client.options import ClientOptions
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import Partition, ProduceRequest, Topic
from tests.sim.seams.loop import run
from tests.sim.seams.wire import Conditions
from tests.support.client.fake_cluster import FakeBroker, FakeCluster

QUESTION = MetadataRequest(topics=())
NOTHING = ProduceRequest(acks=0, timeout_ms=1, topic_data=())


def with_broker(
    story: Callable[[FakeCluster, FakeBroker], Awaitable[None]],
    conditions: Conditions | None = None,
) -> None:
    async def tell() -> None:
        cluster = FakeCluster() if conditions is None else FakeCluster(conditions=conditions)
        async with cluster:
            await story(cluster, cluster.brokers[1])

    run(tell())


async def connected(cluster: FakeCluster, **options: int) -> Connection:
    net = cluster.network.host("client")
    return await connect(net, cluster.brokers[1].address, ClientOptions(**options))


def test_a_response_arrives_over_a_network_that_splits_and_joins_bytes() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster)
        answers = await asyncio.gather(*(connection.ask(QUESTION) for _ in range(20)))
        assert {answer.cluster_id for answer in answers} == {"the-cluster"}
        connection.close()

    with_broker(story, Conditions(split_rate=0.9, gather_rate=0.5))


def test_a_broker_with_an_old_apiversions_gets_it_again_in_that_version() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        broker.versions["ApiVersions"] = (0, 2)
        connection = await connected(cluster)
        assert [version for version, _ in broker.asked_for("ApiVersions")] == [4, 2]
        assert (await connection.ask(QUESTION)).controller_id == 1
        connection.close()

    with_broker(story)


def test_a_refused_connection_names_the_address() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        net = cluster.network.host("client")
        with pytest.raises(Unreachable, match=r"b1:1: .*refused"):
            await connect(net, Address("b1", 1), ClientOptions())
        with pytest.raises(Unreachable, match="nowhere:1: Name"):
            await connect(net, Address("nowhere", 1), ClientOptions())

    with_broker(story)


def test_a_host_that_drops_packets_is_unreachable_after_the_setup_timeout() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        cluster.network.partition("client", "b1")
        started = asyncio.get_running_loop().time()
        with pytest.raises(Unreachable, match="b1:9092 did not answer within 2000 ms"):
            await connected(cluster, socket_connection_setup_timeout_ms=2000)
        assert asyncio.get_running_loop().time() - started == pytest.approx(2, abs=0.1)

    with_broker(story)


def test_a_port_of_another_protocol_is_unreachable() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        class WebServer(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                transport.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        await cluster.network.host("b1").listen(WebServer, "", 80)
        with pytest.raises(Unreachable, match=r"no Kafka broker answers there.*b1:80"):
            await connect(cluster.network.host("client"), Address("b1", 80), ClientOptions())

    with_broker(story)


def test_a_request_timeout_ends_the_connection_for_all_requests() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        broker.answers["Metadata"] = lambda request, version: asyncio.sleep(5)
        connection = await connected(cluster)
        behind = asyncio.create_task(connection.ask(QUESTION, timeout_ms=50_000))
        with pytest.raises(TimedOut, match="b1:9092 did not answer Metadata within 700 ms"):
            await connection.ask(QUESTION, timeout_ms=700)
        with pytest.raises(ConnectionLost, match="did not answer"):
            await behind
        assert not connection.is_open
        with pytest.raises(ConnectionLost):
            await connection.ask(QUESTION)

    with_broker(story)


def test_a_broker_that_dies_fails_all_requests_in_flight() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster)
        broker.answers["Metadata"] = lambda request, version: asyncio.sleep(1)
        questions = [asyncio.create_task(connection.ask(QUESTION)) for _ in range(8)]
        await asyncio.sleep(0.5)
        await broker.stop()
        outcomes = await asyncio.gather(*questions, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ConnectionLost}
        assert "b1:9092 closed the connection" in str(outcomes[0])

    with_broker(story)


def test_requests_in_flight_are_limited() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        underway = most = 0

        async def slow(request: object, version: int) -> Any:
            nonlocal underway, most
            underway += 1
            most = max(most, underway)
            await asyncio.sleep(0.1)
            underway -= 1
            return cluster._metadata(request, version)

        broker.answers["Metadata"] = slow
        connection = await connected(cluster, max_in_flight_requests_per_connection=3)
        await asyncio.gather(*(connection.ask(QUESTION) for _ in range(10)))
        assert most == 3
        connection.close()

    with_broker(story)


def test_a_cancelled_request_does_not_disturb_other_responses() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster, max_in_flight_requests_per_connection=1)
        impatient = asyncio.create_task(connection.ask(QUESTION))
        patient = asyncio.create_task(connection.ask(QUESTION))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).cluster_id == "the-cluster"
        assert len(broker.asked_for("Metadata")) == 2
        connection.close()

    with_broker(story)


def test_a_produce_without_acks_is_done_once_it_is_sent() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        broker.answers["Produce"] = lambda request, version: None
        connection = await connected(cluster, max_in_flight_requests_per_connection=1)
        for _ in range(3):
            assert await connection.ask(NOTHING) is None
        assert (await connection.ask(QUESTION)).cluster_id == "the-cluster"
        assert len(broker.asked_for("Produce")) == 3
        connection.close()

    with_broker(story)


def test_a_produce_without_acks_that_is_done_arrives_even_if_the_connection_is_closed() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        broker.answers["Produce"] = lambda request, version: None
        connection = await connected(cluster)
        large = Partition(index=0, records=bytes(5_000_000))
        topic = Topic(name="a", partition_data=(large,))
        await connection.ask(
            ProduceRequest(acks=0, timeout_ms=1, topic_data=(topic,)), version_max=9
        )
        connection.close()
        await asyncio.sleep(60)
        assert len(broker.asked_for("Produce")) == 1

    with_broker(story)


def test_an_api_that_the_broker_lacks_is_an_error_and_the_connection_stays_open() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster, max_in_flight_requests_per_connection=1)
        for _ in range(3):
            with pytest.raises(UnsupportedByBroker, match="does not offer Produce"):
                await connection.ask(NOTHING)
        assert (await connection.ask(QUESTION)).cluster_id == "the-cluster"
        connection.close()

    with_broker(story)


def test_closing_fails_all_requests_in_flight() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster)
        waiting = asyncio.create_task(connection.ask(QUESTION))
        await asyncio.sleep(0)
        connection.close()
        connection.close()
        with pytest.raises(ConnectionLost, match="was closed"):
            await waiting

    with_broker(story)
