"""Produces and fetches that reach a broker which does not lead the partition (KIP-951)."""

import asyncio
from typing import Any

import pytest

from ottla.errors import ErrorCode
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import PORT, Client, create, new_topic

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def topic_at_two(cluster: Cluster) -> tuple[Client, Any]:
    """A client of broker 1, and the id of a topic that broker 2 leads."""
    client = await cluster.client(1)
    topic = new_topic("events", -1, factor=-1, assignments={0: (2,), 1: (1,)})
    (created,) = await create(client, topic)
    await asyncio.sleep(1)
    return client, created.topic_id


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_a_refused_produce_names_the_leader_since_v10(version: int, acks: int) -> None:
    async def story(cluster: Cluster) -> None:
        client, topic_id = await topic_at_two(cluster)
        key = topic_id if version >= 13 else "events"
        response = await client.ask(produce(key, batch(b"a"), batch(b"b"), acks=acks), version)
        refused, appended = response.responses[0].partition_responses
        assert (refused.error_code, refused.base_offset) == (NOT_LEADER, -1)
        assert (appended.error_code, appended.base_offset) == (ErrorCode.NONE, 0)
        assert appended.current_leader is None
        if version < 10:
            assert (refused.current_leader, response.node_endpoints) == (None, ())
            return
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 0)
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "two", PORT)

    with_cluster(story)


def test_an_answer_without_an_error_names_nobody() -> None:
    async def story(cluster: Cluster) -> None:
        client, _ = await topic_at_two(cluster)
        response = await client.ask(produce("events", batch(b"a"), partition=1), 12)
        assert only(response).current_leader is None
        assert response.node_endpoints == ()

    with_cluster(story)


@pytest.mark.parametrize("version", range(12, 19))
def test_a_refused_fetch_names_the_leader_since_v16(version: int) -> None:
    async def story(cluster: Cluster) -> None:
        client, topic_id = await topic_at_two(cluster)
        key = topic_id if version >= 13 else "events"
        await client.ask(produce("events", batch(b"a"), partition=1), 12)
        response = await client.ask(fetch(key, wanted(0), wanted(1)), version)
        refused, read = response.responses[0].partitions
        assert (refused.error_code, refused.high_watermark) == (NOT_LEADER, -1)
        assert (values(read.records), read.current_leader) == ([b"a"], None)
        if version < 16:
            assert (refused.current_leader, response.node_endpoints) == (None, ())
            return
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 0)
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "two", PORT)

    with_cluster(story)


def test_a_fenced_fetch_names_the_leader_and_its_epoch() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        topic = new_topic("events", -1, factor=-1, assignments={0: (2, 1)})
        (created,) = await create(client, topic)
        await asyncio.sleep(1)
        await cluster.kill(2)
        await asyncio.sleep(1)
        response = await client.ask(fetch(created.topic_id, wanted(0, leader_epoch=0)), 16)
        fenced = only(response)
        assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (fenced.current_leader.leader_id, fenced.current_leader.leader_epoch) == (1, 1)
        assert [each.node_id for each in response.node_endpoints] == [1]
        newer = only(await client.ask(fetch(created.topic_id, wanted(0, leader_epoch=9)), 16))
        assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert newer.current_leader is None

    with_cluster(story)


def test_a_broker_that_has_lost_its_session_does_not_name_itself() -> None:
    async def story(cluster: Cluster) -> None:
        client, other = await cluster.client(1), await cluster.client(2)
        topic = new_topic("events", -1, factor=-1, assignments={0: (2, 1)})
        (created,) = await create(client, topic)
        await asyncio.sleep(1)
        polling = asyncio.create_task(
            other.ask(fetch(created.topic_id, wanted(0), wait_ms=60_000), 16)
        )
        await asyncio.sleep(1)
        # Its metadata still names broker 2 as the leader.
        cluster.expire(2)
        moved = only(await polling)
        assert moved.error_code == NOT_LEADER
        assert moved.current_leader is None

    with_cluster(story)
