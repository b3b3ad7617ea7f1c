"""Replicas, ISR, ELR and offline replicas of a replicated topic, as clients see them."""

import asyncio
from typing import Any

from ottla.errors import ErrorCode
from ottla.metadata.values import PartitionId
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestedTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.metadata import RequestedTopic as MetadataTopic
from ottla.protocol.primitives import NO_BROKER
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import Client, create, new_topic


async def created(cluster: Cluster, *replicas: int, min_isr: int = 1) -> Client:
    """A client of broker 1, after the creation of a topic with one partition."""
    client = await cluster.client(1)
    topic = new_topic(
        "events",
        -1,
        factor=-1,
        assignments={0: replicas},
        configs={"min.insync.replicas": str(min_isr)},
    )
    await create(client, topic)
    await asyncio.sleep(1)
    return client


async def described(client: Client) -> Any:
    """The partition as DescribeTopicPartitions has it. Metadata agrees."""
    request = DescribeTopicPartitionsRequest(topics=(RequestedTopic(name="events"),))
    (topic,) = (await client.ask(request)).topics
    (partition,) = topic.partitions
    metadata = await client.ask(MetadataRequest(topics=(MetadataTopic(name="events"),)))
    ((same,),) = [each.partitions for each in metadata.topics]
    assert (same.error_code, same.leader_id) == (partition.error_code, partition.leader_id)
    assert (same.replica_nodes, same.isr_nodes) == (partition.replica_nodes, partition.isr_nodes)
    assert same.offline_replicas == partition.offline_replicas
    assert same.leader_epoch == partition.leader_epoch
    return partition


def test_replicas_that_left_below_the_min_isr_are_eligible_leaders() -> None:
    async def story(cluster: Cluster) -> None:
        client = await created(cluster, 1, 2, 3, min_isr=2)
        whole = await described(client)
        assert (whole.leader_id, whole.isr_nodes) == (1, (1, 2, 3))
        assert (whole.eligible_leader_replicas, whole.offline_replicas) == ((), ())
        await cluster.kill(3)
        await asyncio.sleep(1)
        smaller = await described(client)
        assert (smaller.isr_nodes, smaller.eligible_leader_replicas) == ((1, 2), ())
        await cluster.kill(2)
        await asyncio.sleep(1)
        smallest = await described(client)
        assert (smallest.error_code, smallest.leader_id) == (ErrorCode.NONE, 1)
        assert (smallest.isr_nodes, smallest.eligible_leader_replicas) == ((1,), (2,))
        assert (smallest.last_known_elr, smallest.offline_replicas) == ((), (2, 3))

    with_cluster(story, Cluster(3))


def test_a_partition_without_a_live_replica_has_no_leader() -> None:
    async def story(cluster: Cluster) -> None:
        client = await created(cluster, 2)
        assert (await described(client)).leader_id == 2
        await cluster.kill(2)
        await asyncio.sleep(1)
        partition = await described(client)
        assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (partition.leader_id, partition.offline_replicas) == (NO_BROKER, (2,))
        assert partition.leader_epoch == 1, "the loss of the leader began an epoch"

    with_cluster(story)


def test_a_replica_with_a_failed_log_is_offline_though_its_broker_is_there() -> None:
    async def story(cluster: Cluster) -> None:
        client = await created(cluster, 1, 2)
        replicas = cluster.nodes[2]._replicas
        assert replicas is not None
        for replica in replicas:
            # As after a failed log directory.
            replica.is_unusable = True
        await asyncio.sleep(5)
        publisher = cluster.nodes[1]._publisher
        assert publisher is not None
        (where,) = publisher.image.brokers[2].offline
        assert isinstance(where, PartitionId)
        partition = await described(client)
        assert (partition.leader_id, partition.isr_nodes) == (1, (1,))
        assert partition.offline_replicas == (2,)

    with_cluster(story)


def test_the_offset_lag_of_a_follower_is_what_it_lacks_of_the_committed_records() -> None:
    async def lag(client: Client) -> int:
        (directory,) = (await client.ask(DescribeLogDirsRequest(topics=None))).results
        ((partition,),) = [topic.partitions for topic in directory.topics if topic.name == "events"]
        return int(partition.offset_lag)

    async def story(cluster: Cluster) -> None:
        leader, follower = await created(cluster, 1, 2), await cluster.client(2)
        assert only(await leader.ask(produce("events", batch(b"a", b"b")), 9)).error_code == 0
        await asyncio.sleep(1)
        assert (await lag(leader), await lag(follower)) == (0, 0)
        replicas = cluster.nodes[2]._replicas
        assert replicas is not None
        replica = replicas.named("events", 0)
        assert replica is not None
        # As if the leader had answered without the records.
        replica.partition.replicated(replica.end_offset, 5)
        assert await lag(follower) == 3
        assert await lag(leader) == 0

    with_cluster(story)


def test_brokers_are_described_with_their_racks_and_as_fenced_once_they_are_gone() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        await cluster.kill(2)
        await asyncio.sleep(1)
        asked = {"include_cluster_authorized_operations": False}
        live = await client.ask(DescribeClusterRequest(**asked))
        assert [(each.broker_id, each.rack) for each in live.brokers] == [(1, "a")]
        every = await client.ask(DescribeClusterRequest(**asked, include_fenced_brokers=True))
        assert [(each.broker_id, each.rack, each.is_fenced) for each in every.brokers] == [
            (1, "a", False),
            (2, "b", True),
        ]
        metadata = await client.ask(MetadataRequest(topics=()))
        assert [(each.node_id, each.rack) for each in metadata.brokers] == [(1, "a")]

    with_cluster(story, Cluster(racks=("a", "b")))
