"""Replicas that move between whole brokers."""

import asyncio

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    Partition,
    Topic,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.cluster_partitions import (
    image_of,
    isr_of,
    leader_of,
    reassign,
    reassignments,
    record_of,
    replica_of,
)
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, create, new_topic

NONE = ErrorCode.NONE


async def begin(cluster: Cluster, *replicas: int) -> Client:
    """A topic with ten records on these brokers, and a client of the controller."""
    client = await cluster.client(1)
    topic = new_topic("orders", partitions=-1, factor=-1, assignments={0: replicas})
    await create(client, topic)
    await asyncio.sleep(1)
    leader = await cluster.client(replicas[0])
    for number in range(10):
        answer = only(await leader.ask(produce("orders", batch(b"%d" % number)), 9))
        assert answer.error_code == NONE
    return client


async def read(cluster: Cluster, broker_id: int) -> list[bytes]:
    client = await cluster.client(broker_id)
    found: list[bytes] = values(only(await client.ask(fetch("orders", wanted()), 12)).records)
    return found


def test_a_partition_moves_to_other_brokers_with_its_records() -> None:
    async def story(cluster: Cluster) -> None:
        client = await begin(cluster, 1)
        assert await reassign(client, (3, 2)) == NONE
        await asyncio.sleep(10)
        after = record_of(cluster, 1)
        assert (after.replicas, after.adding, after.removing, after.originals) == (
            (3, 2),
            (),
            (),
            (),
        )
        assert (leader_of(cluster, 1), isr_of(cluster, 1)) == (3, [2, 3])
        assert await reassignments(client) == {}
        assert await read(cluster, 3) == [b"%d" % number for number in range(10)]
        assert replica_of(cluster, 1) is None

    with_cluster(story, Cluster(3))


def test_a_move_in_progress_is_listed_and_cancelled() -> None:
    async def story(cluster: Cluster) -> None:
        client = await begin(cluster, 1, 2)
        # It takes over, and then it is gone.
        assert await reassign(client, (3, 2)) == NONE
        await cluster.kill(3)
        await asyncio.sleep(1)
        assert await reassignments(client) == {("orders", 0): ((3, 2, 1), (3,), (1,))}
        assert (leader_of(cluster, 1), isr_of(cluster, 1)) == (1, [1, 2])
        assert await reassign(client, None) == NONE
        after = record_of(cluster, 1)
        assert (after.replicas, after.adding, after.removing) == ((1, 2), (), ())
        assert await reassignments(client) == {}
        assert await reassign(client, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert await read(cluster, 1) == [b"%d" % number for number in range(10)]

    with_cluster(story, Cluster(3))


def test_the_next_controller_completes_a_move() -> None:
    async def story(cluster: Cluster) -> None:
        await begin(cluster, 2)
        client = await cluster.client(2)
        assert await reassign(client, (3,)) == NONE
        await cluster.kill(1)
        await asyncio.sleep(20)
        assert record_of(cluster, 2).replicas == (3,)
        assert await read(cluster, 3) == [b"%d" % number for number in range(10)]

    with_cluster(story, Cluster(3))


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((2, 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, -1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        ((2,), ErrorCode.INVALID_REPLICATION_FACTOR),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_an_impossible_target_has_its_code(target: tuple[int, ...] | None, code: ErrorCode) -> None:
    async def story(cluster: Cluster) -> None:
        client = await begin(cluster, 1, 2)
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=False,
            topics=(
                Topic(
                    name="orders",
                    partitions=(
                        Partition(partition_index=0, replicas=target),
                        Partition(partition_index=1, replicas=(1, 2)),
                    ),
                ),
                Topic(name="none", partitions=(Partition(partition_index=0, replicas=(1,)),)),
            ),
        )
        orders, none = (await client.ask(request)).responses
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [each.error_code for each in orders.partitions] == [code, unknown]
        assert [each.error_code for each in none.partitions] == [unknown]
        assert record_of(cluster, 1).replicas == (1, 2)

    with_cluster(story, Cluster(3))


def test_a_topic_that_is_deleted_while_it_moves_is_not_reassigned_any_more() -> None:
    async def story(cluster: Cluster) -> None:
        client = await begin(cluster, 1, 2)
        assert await reassign(client, (3, 2)) == NONE
        await cluster.kill(3)
        await asyncio.sleep(1)
        assert await reassignments(client) != {}
        topic_id = record_of(cluster, 1).topic_id
        await client.ask(DeleteTopicsRequest(topic_names=("orders",), timeout_ms=5_000), 5)
        assert await reassignments(client) == {}
        for target in ((2, 1), (3, 2), None):
            assert await reassign(client, target) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await cluster.start(3)
        await asyncio.sleep(10)
        for broker_id, node in cluster.nodes.items():
            assert not node.fault.done()
            assert image_of(cluster, broker_id).partition(topic_id, 0) is None
            assert replica_of(cluster, broker_id) is None

    with_cluster(story, Cluster(3))
