"""The channel to the controller: limits, lost connections, former controllers."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from ottla.broker.inter_broker import shared_connection
from ottla.broker.inter_broker.controller_channel import ControllerChannel, ControllerIsHere
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.describe_log_ends import DescribeLogEndsRequest
from ottla.protocol.messages.envelope import EnvelopeRequest
from tests.support.broker.cluster import Cluster, with_cluster

QUESTION = DescribeLogEndsRequest(topics=())


def channel_of(cluster: Cluster, broker_id: int) -> ControllerChannel:
    inter_broker = cluster.nodes[broker_id]._inter_broker
    assert inter_broker is not None
    return inter_broker.channel


async def refusal(asking: Any) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        await asking
    return caught.value.code


def test_a_request_reaches_the_controller_of_the_moment() -> None:
    async def story(cluster: Cluster) -> None:
        asked = []
        for _ in range(2):
            response = await channel_of(cluster, 3).ask(QUESTION, timeout_ms=5_000)
            asked.append(response.broker_id)
            await cluster.kill(1) if len(asked) == 1 else None
            await asyncio.sleep(1)
        assert asked == [1, 2]
        with pytest.raises(ControllerIsHere):
            await channel_of(cluster, 2).ask(QUESTION, timeout_ms=5_000)

    with_cluster(story, Cluster(3))


def test_requests_beyond_the_limits_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_connection, "WAITING_MAX", 3)
    monkeypatch.setattr(shared_connection, "WAITING_BYTES_MAX", 100)

    async def story(cluster: Cluster) -> None:
        channel = channel_of(cluster, 2)
        cluster.machines[0].network.partition("one", "two")
        asking = [
            asyncio.create_task(channel.ask(QUESTION, timeout_ms=5_000, held_bytes=held))
            for held in (60, 0)
        ]
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        started = loop.time()
        too_large = channel.ask(QUESTION, timeout_ms=5_000, held_bytes=41)
        assert await refusal(too_large) is ErrorCode.REQUEST_TIMED_OUT
        asking.append(asyncio.create_task(channel.ask(QUESTION, timeout_ms=5_000, held_bytes=40)))
        await asyncio.sleep(0)
        one_more = channel.ask(QUESTION, timeout_ms=5_000)
        assert await refusal(one_more) is ErrorCode.REQUEST_TIMED_OUT
        assert loop.time() == started
        for each in asking:
            assert await refusal(each) is ErrorCode.REQUEST_TIMED_OUT
        # Their room is free again.
        cluster.machines[0].network.heal()
        response = await channel.ask(QUESTION, timeout_ms=20_000, held_bytes=100)
        assert response.broker_id == 1

    with_cluster(story)


def test_a_short_timeout_does_not_end_the_connection_of_others() -> None:
    async def story(cluster: Cluster) -> None:
        channel = channel_of(cluster, 2)
        await channel.ask(QUESTION, timeout_ms=5_000)
        connection = channel._shared.connection
        network = cluster.machines[0].network
        network.block("one", "two")
        patient = asyncio.create_task(channel.ask(QUESTION, timeout_ms=20_000))
        assert await refusal(channel.ask(QUESTION, timeout_ms=500)) is ErrorCode.REQUEST_TIMED_OUT
        network.heal()
        assert (await patient).broker_id == 1
        assert channel._shared.connection is connection

    with_cluster(story)


def test_a_connection_without_answers_is_replaced_even_if_nobody_waits_that_long() -> None:
    async def story(cluster: Cluster) -> None:
        channel = channel_of(cluster, 2)
        await channel.ask(QUESTION, timeout_ms=5_000)
        silent = channel._shared.connection
        assert silent is not None
        # The answers on this connection are lost, and others would arrive.
        silent.data_received = lambda data: None  # type: ignore[method-assign]
        for _ in range(8):
            with suppress(PeerError):
                assert (await channel.ask(QUESTION, timeout_ms=1_000)).broker_id == 1
        assert not silent.is_open
        assert (await channel.ask(QUESTION, timeout_ms=1_000)).broker_id == 1

    with_cluster(story, Cluster(request_timeout_ms="6000"))


def test_requests_that_are_sent_count_even_if_nobody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_connection, "WAITING_BYTES_MAX", 100)

    async def story(cluster: Cluster) -> None:
        channel = channel_of(cluster, 2)
        await channel.ask(QUESTION, timeout_ms=5_000)
        network = cluster.machines[0].network
        network.block("one", "two")
        for held_bytes in (60, 40):
            asking = channel.ask(QUESTION, timeout_ms=10, held_bytes=held_bytes)
            assert await refusal(asking) is ErrorCode.REQUEST_TIMED_OUT
        loop = asyncio.get_running_loop()
        started = loop.time()
        asking = channel.ask(QUESTION, timeout_ms=10_000, held_bytes=1)
        assert await refusal(asking) is ErrorCode.REQUEST_TIMED_OUT
        assert loop.time() == started
        network.heal()
        await asyncio.sleep(1)
        response = await channel.ask(QUESTION, timeout_ms=10_000, held_bytes=100)
        assert response.broker_id == 1

    with_cluster(story)


def test_a_request_on_which_the_controller_hangs_up_is_given_up() -> None:
    async def story(cluster: Cluster) -> None:
        oversized = EnvelopeRequest(
            request_data=bytes(3 << 20), request_principal=None, client_host_address=bytes(4)
        )
        loop = asyncio.get_running_loop()
        started = loop.time()
        asking = channel_of(cluster, 2).ask(oversized, timeout_ms=600_000)
        assert await refusal(asking) is ErrorCode.REQUEST_TIMED_OUT
        assert loop.time() - started < 30
        assert (await channel_of(cluster, 2).ask(QUESTION, timeout_ms=5_000)).broker_id == 1

    with_cluster(story)


def test_nothing_is_left_of_a_channel_when_its_broker_stops() -> None:
    async def story(cluster: Cluster) -> None:
        channels = [channel_of(cluster, broker_id) for broker_id in (2, 3)]
        for channel in channels:
            await channel.ask(QUESTION, timeout_ms=5_000)
        connections = [channel._shared.connection for channel in channels]
        # A connection to a former controller, and one to its successor.
        cluster.expire(1)
        await asyncio.sleep(0.5)
        await channels[1].ask(QUESTION, timeout_ms=5_000)
        for broker_id in (3, 2):
            await cluster.nodes.pop(broker_id).stop()
        for channel, connection in zip(channels, connections, strict=True):
            assert connection is not None
            assert not connection.is_open
            assert channel._shared._former == {}
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert "connect to the controller" not in names

    with_cluster(story, Cluster(3))


def test_a_controller_that_is_gone_without_a_word_is_left_when_another_is_elected() -> None:
    async def story(cluster: Cluster) -> None:
        channel = channel_of(cluster, 3)
        await channel.ask(QUESTION, timeout_ms=5_000)
        cluster.machines[0].network.partition("one", "three")
        loop = asyncio.get_running_loop()
        started = loop.time()
        asking = asyncio.create_task(channel.ask(QUESTION, timeout_ms=60_000))
        await asyncio.sleep(1)
        await cluster.lose(1)
        assert (await asking).broker_id == 2
        # Not only after request.timeout.ms.
        assert loop.time() - started < 5

    with_cluster(story, Cluster(3))
