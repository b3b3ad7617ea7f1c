"""Requests that the caller encodes, on a connection that others may use as well."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from ottla.client.connection.connection import Connection, connect
from ottla.client.errors import ConnectionLost, TimedOut
from ottla.client.options import ClientOptions
from ottla.protocol.exchange import decode_response, encode_request
from ottla.protocol.messages import APIS
from ottla.protocol.messages.metadata import MetadataRequest
from tests.sim.seams.loop import run
from tests.sim.seams.wire import Conditions
from tests.support.client.fake_cluster import FakeBroker, FakeCluster

QUESTION = MetadataRequest(topics=())
METADATA = APIS[3]
VERSION = 12
TIMEOUT_MS = 1_000


def with_broker(
    story: Callable[[FakeCluster, FakeBroker], Awaitable[None]],
    conditions: Conditions | None = None,
) -> None:
    async def tell() -> None:
        cluster = FakeCluster() if conditions is None else FakeCluster(conditions=conditions)
        async with cluster:
            await story(cluster, cluster.brokers[1])
            await asyncio.sleep(100)
            loop: Any = asyncio.get_running_loop()
            assert not [timer for timer in loop._scheduled if not timer.cancelled()]

    run(tell())


async def connected(cluster: FakeCluster, **options: Any) -> Connection:
    net = cluster.network.host("client")
    return await connect(net, cluster.brokers[1].address, ClientOptions(**options))


def encode(correlation_id: int) -> bytearray:
    parts = encode_request(correlation_id, METADATA, VERSION, QUESTION, "tests")
    return bytearray(b"".join(cast("list[bytes]", parts)))


def ask(connection: Connection, timeout_ms: int = TIMEOUT_MS) -> "asyncio.Future[memoryview]":
    return connection.ask_encoded(METADATA, VERSION, encode, timeout_ms)


def cluster_id(frame: memoryview) -> object:
    return decode_response(frame, METADATA, VERSION).cluster_id


def slowly(cluster: FakeCluster, broker: FakeBroker, *seconds: float) -> None:
    """Each answer comes after its time; the last one is for all others."""
    left = list(seconds)

    async def answer(request: object, version: int) -> Any:
        await asyncio.sleep(left.pop(0) if len(left) > 1 else left[0])
        return cluster._metadata(request, version)

    broker.answers["Metadata"] = answer


def test_the_frame_of_the_response_comes_back_as_it_was_sent() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster)
        for _ in range(20):
            assert cluster_id(await ask(connection)) == "the-cluster"
        assert [version for version, _ in broker.asked_for("Metadata")] == [VERSION] * 20
        connection.close()

    with_broker(story, Conditions(split_rate=0.9, gather_rate=0.5))


def test_encoded_and_declared_requests_share_a_connection() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster, max_in_flight_requests_per_connection=3)
        for _ in range(10):
            declared = asyncio.create_task(connection.ask(QUESTION))
            await asyncio.sleep(0)
            encoded = ask(connection)
            later = asyncio.create_task(connection.ask(QUESTION))
            assert cluster_id(await encoded) == "the-cluster"
            assert (await declared).cluster_id == (await later).cluster_id == "the-cluster"
        connection.close()

    with_broker(story)


def test_encoded_requests_take_and_give_no_slot() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster, max_in_flight_requests_per_connection=2)
        for _ in range(5):
            await ask(connection)
        slowly(cluster, broker, 0.1)
        tasks = [asyncio.create_task(connection.ask(QUESTION)) for _ in range(6)]
        await asyncio.sleep(0.05)
        assert len(broker.asked_for("Metadata")) == 5 + 2
        await asyncio.gather(*tasks)
        connection.close()

    with_broker(story)


def test_too_many_requests_in_flight_are_a_fault_of_the_caller() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster, max_in_flight_requests_per_connection=1)
        coming = ask(connection)
        with pytest.raises(RuntimeError, match="wait for their answer"):
            ask(connection)
        assert cluster_id(await coming) == "the-cluster"
        connection.close()

    with_broker(story)


def test_a_request_without_an_answer_ends_the_connection_after_its_timeout() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster)
        slowly(cluster, broker, 5)
        loop = asyncio.get_running_loop()
        started = loop.time()
        declared = asyncio.create_task(connection.ask(QUESTION, timeout_ms=60_000))
        await asyncio.sleep(0)
        with pytest.raises(ConnectionLost, match="b1:9092 did not answer in time"):
            await ask(connection, 700)
        assert loop.time() - started == pytest.approx(0.7)
        assert not connection.is_open
        with pytest.raises(ConnectionLost, match="did not answer in time"):
            await declared
        with pytest.raises(ConnectionLost, match="did not answer in time"):
            ask(connection)

    with_broker(story)


def test_the_timeout_of_a_request_that_is_answered_does_not_end_the_next() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster)
        slowly(cluster, broker, 0.9)
        for _ in range(5):
            assert cluster_id(await ask(connection, 1_000)) == "the-cluster"
        # An idle connection stays open.
        await asyncio.sleep(20)
        assert connection.is_open
        assert cluster_id(await ask(connection, 1_000)) == "the-cluster"
        # A shorter timeout than the one before it is kept, too.
        with pytest.raises(ConnectionLost):
            await ask(connection, 100)

    with_broker(story)


def test_an_answer_to_a_declared_request_does_not_stop_the_clock_of_an_encoded_one() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster)
        slowly(cluster, broker, 0.2, 5)
        started = asyncio.get_running_loop().time()
        declared = asyncio.create_task(connection.ask(QUESTION))
        await asyncio.sleep(0)
        encoded = ask(connection)
        assert (await declared).cluster_id == "the-cluster"
        with pytest.raises(ConnectionLost):
            await encoded
        assert asyncio.get_running_loop().time() - started == pytest.approx(1)

    with_broker(story)


def test_a_caller_that_is_cancelled_does_not_disturb_what_follows() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster)
        impatient = ask(connection)
        await asyncio.sleep(0)
        impatient.cancel()
        assert cluster_id(await ask(connection)) == "the-cluster"
        await asyncio.sleep(20)
        assert connection.is_open
        connection.close()

    with_broker(story)


@pytest.mark.parametrize("is_closed_here", [True, False])
def test_a_connection_that_ends_fails_the_request_in_flight(is_closed_here: bool) -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster)
        slowly(cluster, broker, 0.5)
        coming = ask(connection)
        await asyncio.sleep(0.1)
        if is_closed_here:
            connection.close()
        else:
            await broker.stop()
        with pytest.raises(ConnectionLost, match="closed"):
            await coming
        with pytest.raises(ConnectionLost):
            ask(connection)

    with_broker(story)


def test_a_timeout_of_a_declared_request_fails_the_encoded_one() -> None:
    async def story(cluster: FakeCluster, broker: FakeBroker) -> None:
        connection = await connected(cluster)
        slowly(cluster, broker, 5)
        coming = ask(connection, 60_000)
        with pytest.raises(TimedOut):
            await connection.ask(QUESTION, timeout_ms=300)
        with pytest.raises(ConnectionLost, match="did not answer Metadata within 300 ms"):
            await coming

    with_broker(story)
