"""DescribeLogEnds: the ends of logs, as an unclean election needs them."""

import asyncio

from ottla.errors import ErrorCode, LogOffline
from ottla.protocol.messages.describe_log_ends import DescribeLogEndsRequest, Topic
from ottla.protocol.primitives import Uuid
from tests.support.broker.cluster import BROKERS_PORT, Cluster, with_cluster
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import Client, create, new_topic


async def ends(client: Client, topic_id: Uuid, *indexes: int) -> list[tuple[int, int, int]]:
    asked = Topic(topic_id=topic_id, partition_indexes=indexes)
    answer = await client.ask(DescribeLogEndsRequest(topics=(asked,)))
    assert answer.error_code == ErrorCode.NONE
    return [
        (each.error_code, each.last_epoch, each.log_end_offset)
        for each in answer.topics[0].partitions
    ]


def test_a_broker_tells_the_ends_of_its_logs_and_who_it_is() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        topic = new_topic(
            "events", partitions=-1, factor=-1, assignments={0: (2,), 1: (2,), 2: (1,)}
        )
        (created,) = await create(client, topic)
        await asyncio.sleep(1)
        for _ in range(3):
            assert only(await client.ask(produce("events", batch(b"x")), 9)).error_code == 0
        broker = await cluster.client(2, BROKERS_PORT)
        assert await ends(broker, created.topic_id, 0, 1) == [(0, 0, 3), (0, -1, 0)]
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await ends(broker, created.topic_id, 9) == [(missing, -1, -1)]
        unknown = Uuid(bytes(15) + b"x")
        assert await ends(broker, unknown, 0) == [(ErrorCode.UNKNOWN_TOPIC_ID, -1, -1)]
        answer = await broker.ask(DescribeLogEndsRequest(topics=()))
        epoch = cluster.broker_epoch(2)
        assert (answer.broker_id, answer.broker_epoch) == (2, epoch)

    with_cluster(story)


def test_an_epoch_that_has_begun_and_written_nothing_does_not_count() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        (created,) = await create(client, new_topic("events"))
        await client.ask(produce("events", batch(b"x")), 9)
        replica = cluster.services(1).partitions.replicas.get(created.topic_id, 0)
        assert replica is not None
        assert replica.log is not None
        replica.log.begin_epoch(7)
        broker = await cluster.client(1, BROKERS_PORT)
        assert await ends(broker, created.topic_id, 0) == [(0, 0, 1)]

    with_cluster(story, Cluster(1))


def test_an_offline_log_has_no_end() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        (created,) = await create(client, new_topic("events"))
        await client.ask(produce("events", batch(b"x")), 9)
        replica = cluster.services(1).partitions.replicas.get(created.topic_id, 0)
        assert replica is not None
        assert replica.log is not None
        replica.log.abandon(LogOffline("gone"))
        broker = await cluster.client(1, BROKERS_PORT)
        offline = ErrorCode.KAFKA_STORAGE_ERROR
        assert await ends(broker, created.topic_id, 0) == [(offline, -1, -1)]

    with_cluster(story, Cluster(1))
