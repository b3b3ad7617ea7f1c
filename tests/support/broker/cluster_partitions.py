"""Partitions of a simulated cluster: their records, their replicas, and requests about them."""

from typing import Any

from ottla.metadata.image import Image
from ottla.metadata.incarnation import FILE_NAME
from ottla.metadata.records import Partition
from ottla.protocol.messages import alter_partition_reassignments as alter
from ottla.protocol.messages import list_partition_reassignments as listing
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.replication.replica import Replica
from tests.support.broker.cluster import Cluster
from tests.support.broker.simulated_broker import Client


def image_of(cluster: Cluster, broker_id: int) -> Image:
    publisher = cluster.nodes[broker_id]._publisher
    assert publisher is not None
    return publisher.image


def record_of(cluster: Cluster, broker_id: int, topic: str = "orders", index: int = 0) -> Partition:
    """The partition, as this broker knows it."""
    image = image_of(cluster, broker_id)
    known = image.topic(topic)
    assert known is not None
    record = image.partition(known.topic_id, index)
    assert record is not None
    return record


def leader_of(
    cluster: Cluster, broker_id: int, topic: str = "orders", index: int = 0
) -> int | None:
    leader = record_of(cluster, broker_id, topic, index).leader
    return None if leader is None else leader.broker_id


def isr_of(cluster: Cluster, broker_id: int, topic: str = "orders", index: int = 0) -> list[int]:
    return sorted(each.broker_id for each in record_of(cluster, broker_id, topic, index).isr)


def replica_of(
    cluster: Cluster, broker_id: int, topic: str = "orders", index: int = 0
) -> Replica | None:
    replicas = cluster.nodes[broker_id]._replicas
    assert replicas is not None
    return replicas.named(topic, index)


async def elect(client: Client, kind: int, *indexes: int, topic: str = "orders") -> list[int]:
    """The error codes of elections, by partition."""
    named = TopicPartitions(topic=topic, partitions=indexes)
    request = ElectLeadersRequest(election_type=kind, topic_partitions=(named,), timeout_ms=5_000)
    (result,) = (await client.ask(request)).replica_election_results
    return [each.error_code for each in result.partition_result]


async def reassign(
    client: Client, target: tuple[int, ...] | None, *, topic: str = "orders", index: int = 0
) -> int:
    """The error code; a target of None cancels."""
    partition = alter.Partition(partition_index=index, replicas=target)
    request = alter.AlterPartitionReassignmentsRequest(
        topics=(alter.Topic(name=topic, partitions=(partition,)),)
    )
    response = await client.ask(request)
    assert response.error_code == 0
    code: int = response.responses[0].partitions[0].error_code
    return code


async def reassignments(client: Client) -> dict[tuple[str, int], Any]:
    """Replicas, adding and removing ones, of the partitions that move."""
    response = await client.ask(listing.ListPartitionReassignmentsRequest(topics=None))
    assert response.error_code == 0
    return {
        (topic.name, each.partition_index): (
            each.replicas,
            each.adding_replicas,
            each.removing_replicas,
        )
        for topic in response.topics
        for each in topic.partitions
    }


def forget_incarnation(cluster: Cluster, broker_id: int) -> None:
    """The broker, which is down, does not know its former incarnation: it inherits nothing."""
    files = cluster.machine(broker_id).disk.process()
    files.remove(f"/data/{FILE_NAME}")
    files.crash()
