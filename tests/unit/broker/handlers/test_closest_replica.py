"""Consumers that read from a replica in their rack (KIP-392)."""

import asyncio
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.list_offsets import Partition as OffsetPartition
from ottla.protocol.messages.list_offsets import Topic as OffsetTopic
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.primitives import NO_BROKER
from ottla.replication.replica import Replica
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, create, new_topic

RACKS = ("a", "b")
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


async def replicated(cluster: Cluster, *sent: bytes) -> tuple[Client, Client]:
    """A topic that broker 1 leads and broker 2 follows, with these records: clients of both."""
    leader, follower = await cluster.client(1), await cluster.client(2)
    await create(leader, new_topic("events", -1, factor=-1, assignments={0: (1, 2)}))
    await asyncio.sleep(1)
    for value in sent:
        assert only(await leader.ask(produce("events", batch(value)), 9)).error_code == NONE
    await asyncio.sleep(2)
    return leader, follower


def replica_at(cluster: Cluster, broker_id: int) -> Replica:
    replicas = cluster.nodes[broker_id]._replicas
    assert replicas is not None
    replica = replicas.named("events", 0)
    assert replica is not None
    return replica


def selecting(**settings: str) -> Cluster:
    return Cluster(2, racks=RACKS, replica_selector_class=SELECTOR, **settings)


def summary(partition: Any) -> tuple[int, int, list[bytes | None]]:
    return partition.error_code, partition.preferred_read_replica, values(partition.records)


@pytest.mark.parametrize("version", [11, 12])
def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_reads_there(version: int) -> None:
    async def story(cluster: Cluster) -> None:
        leader, follower = await replicated(cluster, b"x", b"y")
        sent_away = only(await leader.ask(fetch("events", wanted(), rack="b"), version))
        assert summary(sent_away) == (NONE, 2, [])
        assert (sent_away.high_watermark, sent_away.log_start_offset) == (2, 0)
        read = only(await follower.ask(fetch("events", wanted(), rack="b"), version))
        assert summary(read) == (NONE, NO_BROKER, [b"x", b"y"])
        assert read.high_watermark == 2

    with_cluster(story, selecting())


@pytest.mark.parametrize(("rack", "version"), [("a", 12), ("c", 12), ("", 12), ("", 10)])
def test_other_consumers_read_from_the_leader(rack: str, version: int) -> None:
    async def story(cluster: Cluster) -> None:
        leader, _ = await replicated(cluster, b"x")
        read = only(await leader.ask(fetch("events", wanted(), rack=rack), version))
        assert summary(read) == (NONE, NO_BROKER, [b"x"])

    with_cluster(story, selecting())


@pytest.mark.parametrize("selector", [None, "LeaderSelector"])
def test_without_the_selector_only_the_leader_serves(selector: str | None) -> None:
    settings = {} if selector is None else {"replica_selector_class": selector}

    async def story(cluster: Cluster) -> None:
        leader, follower = await replicated(cluster, b"x")
        read = only(await leader.ask(fetch("events", wanted(), rack="b"), 12))
        assert summary(read) == (NONE, NO_BROKER, [b"x"])
        refused = only(await follower.ask(fetch("events", wanted(), rack="b"), 12))
        assert refused.error_code == NOT_LEADER

    with_cluster(story, Cluster(2, racks=RACKS, **settings))


def test_a_request_older_than_racks_is_served_by_the_leader_only() -> None:
    async def story(cluster: Cluster) -> None:
        _, follower = await replicated(cluster, b"x")
        refused = only(await follower.ask(fetch("events", wanted()), 10))
        assert refused.error_code == NOT_LEADER

    with_cluster(story, selecting())


def test_a_consumer_that_is_sent_away_does_not_wait() -> None:
    async def story(cluster: Cluster) -> None:
        leader, _ = await replicated(cluster, b"x")
        loop = asyncio.get_running_loop()
        began = loop.time()
        away = only(await leader.ask(fetch("events", wanted(0, 1), rack="b", wait_ms=5_000), 12))
        assert away.preferred_read_replica == 2
        assert loop.time() - began < 1

    with_cluster(story, selecting())


def test_a_session_tells_its_client_again_and_again() -> None:
    async def story(cluster: Cluster) -> None:
        leader, _ = await replicated(cluster, b"x")
        first = await leader.ask(fetch("events", wanted(0, 1), rack="b", session=(0, 0)), 12)
        assert only(first).preferred_read_replica == 2
        again = fetch("events", rack="b", session=(first.session_id, 1))
        assert only(await leader.ask(again, 12)).preferred_read_replica == 2
        gone = fetch("events", rack="b", session=(first.session_id, 2), forget=(0,))
        assert (await leader.ask(gone, 12)).responses == ()

    with_cluster(story, selecting())


def test_a_long_poll_at_a_follower_ends_when_the_records_are_committed_there() -> None:
    async def story(cluster: Cluster) -> None:
        leader, follower = await replicated(cluster, b"x")
        loop = asyncio.get_running_loop()
        began = loop.time()
        asked = fetch("events", wanted(0, 1), rack="b", wait_ms=30_000)
        polling = asyncio.create_task(follower.ask(asked, 12))
        await asyncio.sleep(1)
        await leader.ask(produce("events", batch(b"y")), 9)
        assert summary(only(await polling)) == (NONE, NO_BROKER, [b"y"])
        assert loop.time() - began < 5

    with_cluster(story, selecting())


def test_a_follower_serves_only_what_it_knows_to_be_committed() -> None:
    async def story(cluster: Cluster) -> None:
        _, follower = await replicated(cluster, b"x", b"y")
        partition = replica_at(cluster, 2).partition
        partition.high_watermark = 1
        read = only(await follower.ask(fetch("events", wanted(), rack="b"), 12))
        assert summary(read) == (NONE, NO_BROKER, [b"x"])
        assert (read.high_watermark, read.last_stable_offset) == (1, 1)
        beyond = only(await follower.ask(fetch("events", wanted(0, 3), rack="b"), 12))
        assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    with_cluster(story, selecting())


def test_the_leader_serves_the_rack_of_a_follower_that_is_gone() -> None:
    async def story(cluster: Cluster) -> None:
        leader, _ = await replicated(cluster, b"x")
        await cluster.kill(2)
        await asyncio.sleep(1)
        racks_of_one = fetch("events", wanted(), rack="b")
        assert summary(only(await leader.ask(racks_of_one, 12))) == (NONE, NO_BROKER, [b"x"])

    with_cluster(story, selecting())


def test_offsets_are_listed_by_the_leader_only() -> None:
    async def story(cluster: Cluster) -> None:
        _, follower = await replicated(cluster, b"x")
        asked = OffsetPartition(partition_index=0, timestamp=OffsetSpec.LATEST)
        request = ListOffsetsRequest(
            replica_id=-1, topics=(OffsetTopic(name="events", partitions=(asked,)),)
        )
        assert only(await follower.ask(request)).error_code == NOT_LEADER

    with_cluster(story, selecting())
