"""Requests to any broker: one attempt each, on a connection that is kept."""

import asyncio
from typing import Any

import pytest

from ottla.broker.inter_broker import shared_connection
from ottla.broker.inter_broker.broker_channels import BrokerChannels
from ottla.client.errors import ClientError
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.describe_log_ends import DescribeLogEndsRequest
from tests.support.broker.cluster import Cluster, with_cluster

QUESTION = DescribeLogEndsRequest(topics=())


def channels_of(cluster: Cluster, broker_id: int) -> BrokerChannels:
    inter_broker = cluster.nodes[broker_id]._inter_broker
    assert inter_broker is not None
    return inter_broker.brokers


async def refusal(asking: Any) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        await asking
    return caught.value.code


def test_every_broker_reaches_every_other_on_one_connection_each() -> None:
    async def story(cluster: Cluster) -> None:
        for asker in (1, 2, 3):
            channels = channels_of(cluster, asker)
            for asked in {1, 2, 3} - {asker}:
                answers = await asyncio.gather(
                    *[channels.ask(asked, QUESTION, timeout_ms=5_000) for _ in range(3)]
                )
                assert [each.broker_id for each in answers] == [asked] * 3
                connection = channels._shared[asked].connection
                await channels.ask(asked, QUESTION, timeout_ms=5_000)
                assert channels._shared[asked].connection is connection

    with_cluster(story, Cluster(3))


def test_a_broker_that_is_gone_or_unknown_is_not_asked() -> None:
    async def story(cluster: Cluster) -> None:
        channels = channels_of(cluster, 1)
        await channels.ask(2, QUESTION, timeout_ms=5_000)
        await cluster.kill(2)
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        started = loop.time()
        for broker_id in (2, 7):
            asking = channels.ask(broker_id, QUESTION, timeout_ms=5_000)
            assert await refusal(asking) is ErrorCode.BROKER_NOT_AVAILABLE
        assert loop.time() == started

    with_cluster(story, Cluster(3))


def test_a_broker_that_does_not_answer_costs_no_more_than_the_timeout() -> None:
    async def story(cluster: Cluster) -> None:
        channels = channels_of(cluster, 1)
        await channels.ask(2, QUESTION, timeout_ms=5_000)
        network = cluster.machines[0].network
        network.block("two", "one")
        loop = asyncio.get_running_loop()
        started = loop.time()
        unanswered = channels.ask(2, QUESTION, timeout_ms=500)
        assert await refusal(unanswered) is ErrorCode.REQUEST_TIMED_OUT
        assert 0.5 <= loop.time() - started < 0.6
        # Another broker is asked meanwhile.
        assert (await channels.ask(3, QUESTION, timeout_ms=500)).broker_id == 3
        network.heal()
        assert (await channels.ask(2, QUESTION, timeout_ms=5_000)).broker_id == 2

    with_cluster(story, Cluster(3))


def test_a_lost_connection_is_an_error_and_not_a_second_attempt() -> None:
    async def story(cluster: Cluster) -> None:
        channels = channels_of(cluster, 1)
        await channels.ask(2, QUESTION, timeout_ms=5_000)
        network = cluster.machines[0].network
        network.block("two", "one")
        asking = asyncio.create_task(channels.ask(2, QUESTION, timeout_ms=5_000))
        await asyncio.sleep(0.1)
        connection = channels._shared[2].connection
        assert connection is not None
        connection.close()
        with pytest.raises(ClientError):
            await asking
        network.heal()
        assert (await channels.ask(2, QUESTION, timeout_ms=5_000)).broker_id == 2

    with_cluster(story)


def test_a_broker_with_a_new_epoch_gets_a_new_connection() -> None:
    async def story(cluster: Cluster) -> None:
        channels = channels_of(cluster, 1)
        await channels.ask(2, QUESTION, timeout_ms=5_000)
        former = channels._shared[2].connection
        assert former is not None
        cluster.expire(2)
        await asyncio.sleep(2.5)
        assert not former.is_open
        assert (await channels.ask(2, QUESTION, timeout_ms=5_000)).broker_id == 2
        peer = channels._shared[2].peer
        assert peer is not None
        assert peer.broker_epoch == cluster.broker_epoch(2)

    with_cluster(story)


def test_another_peer_gets_another_connection() -> None:
    async def story(cluster: Cluster) -> None:
        channels = channels_of(cluster, 1)
        for broker_id in (2, 3):
            await channels.ask(broker_id, QUESTION, timeout_ms=5_000)
        shared, elsewhere = channels._shared[2], channels._shared[3].peer
        former = shared.connection
        assert former is not None
        assert elsewhere is not None
        connection = await shared.connected(elsewhere)
        assert connection.address == elsewhere.address
        assert shared.connection is connection
        await asyncio.sleep(2)
        assert not former.is_open

    with_cluster(story, Cluster(3))


def test_a_connection_that_opens_too_late_is_not_kept() -> None:
    async def story(cluster: Cluster) -> None:
        channels = channels_of(cluster, 1)
        asking = asyncio.create_task(channels.ask(2, QUESTION, timeout_ms=5_000))
        await asyncio.sleep(0)
        shared = channels._shared[2]
        assert shared.connection is None
        # The broker has another address meanwhile.
        shared.leave()
        assert (await asking).broker_id == 2
        assert shared.connection is None
        (late,) = shared._former
        await asyncio.sleep(2)
        assert not late.is_open
        assert shared._former == {}

    with_cluster(story)


def test_requests_beyond_the_limit_of_one_broker_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_connection, "WAITING_MAX", 2)

    async def story(cluster: Cluster) -> None:
        channels = channels_of(cluster, 1)
        cluster.machines[0].network.partition("one", "two")
        asking = [
            asyncio.create_task(channels.ask(2, QUESTION, timeout_ms=3_000)) for _ in range(2)
        ]
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        started = loop.time()
        one_more = channels.ask(2, QUESTION, timeout_ms=3_000)
        assert await refusal(one_more) is ErrorCode.REQUEST_TIMED_OUT
        assert loop.time() == started
        assert (await channels.ask(3, QUESTION, timeout_ms=3_000)).broker_id == 3
        for each in asking:
            assert await refusal(each) is ErrorCode.REQUEST_TIMED_OUT

    with_cluster(story, Cluster(3))


def test_nothing_is_left_of_the_channels_when_their_broker_stops() -> None:
    async def story(cluster: Cluster) -> None:
        channels = channels_of(cluster, 3)
        for broker_id in (1, 2):
            await channels.ask(broker_id, QUESTION, timeout_ms=5_000)
        connections = [shared.connection for shared in channels._shared.values()]
        # One of them is to a former epoch.
        cluster.expire(2)
        await asyncio.sleep(0.5)
        await cluster.nodes.pop(3).stop()
        for connection in connections:
            assert connection is not None
            assert not connection.is_open
        assert all(shared._former == {} for shared in channels._shared.values())

    with_cluster(story, Cluster(3))
