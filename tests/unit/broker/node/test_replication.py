"""Brokers that replicate partitions from each other."""

import asyncio

from ottla.errors import ErrorCode
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.replication.replica import Replica
from ottla.seams.files import read_file
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, create, new_topic


def image_of(cluster: Cluster, broker_id: int) -> Image:
    publisher = cluster.nodes[broker_id]._publisher
    assert publisher is not None
    return publisher.image


def replica_of(cluster: Cluster, broker_id: int, topic: str = "orders", index: int = 0) -> Replica:
    replicas = cluster.nodes[broker_id]._replicas
    assert replicas is not None
    replica = replicas.named(topic, index)
    assert replica is not None
    return replica


def record_of(cluster: Cluster, broker_id: int, topic: str = "orders", index: int = 0) -> Partition:
    image = image_of(cluster, broker_id)
    known = image.topic(topic)
    assert known is not None
    record = image.partition(known.topic_id, index)
    assert record is not None
    return record


async def replicated_topic(cluster: Cluster, client: Client, **configs: str) -> int:
    """Creates a topic with a replica on every broker. Returns the id of its leader."""
    given = {name.replace("_", "."): value for name, value in configs.items()}
    topic = new_topic("orders", factor=len(cluster.nodes), configs=given)
    await create(client, topic)
    await asyncio.sleep(1)
    leader = record_of(cluster, 1).leader
    assert leader is not None
    return leader.broker_id


def bytes_of(replica: Replica) -> bytes:
    assert replica.log is not None
    return b"".join(
        read_file(replica.log._pool.files, segment.path(".log")) for segment in replica.log.segments
    )


def test_followers_copy_what_the_leader_appends_and_then_it_is_committed() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        leader_id = await replicated_topic(cluster, client, min_insync_replicas="3")
        leader = await cluster.client(leader_id)
        answer = only(await leader.ask(produce("orders", batch(b"a", b"b")), 9))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        await asyncio.sleep(1)
        logs = [bytes_of(replica_of(cluster, each)) for each in (1, 2, 3)]
        assert logs[0] == logs[1] == logs[2] != b""
        assert [replica_of(cluster, each).high_watermark for each in (1, 2, 3)] == [2, 2, 2]
        fetched = only(await leader.ask(fetch("orders", wanted(0, 0)), 12))
        assert values(fetched.records) == [b"a", b"b"]

    with_cluster(story, Cluster(3))


def test_another_replica_leads_when_the_leader_is_gone_and_has_everything() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        leader_id = await replicated_topic(cluster, client, min_insync_replicas="2")
        leader = await cluster.client(leader_id)
        for number in range(20):
            answer = only(await leader.ask(produce("orders", batch(b"%d" % number)), 9))
            assert answer.error_code == ErrorCode.NONE
        await cluster.kill(leader_id)
        await asyncio.sleep(10)
        (other_id, *_) = cluster.nodes
        record = record_of(cluster, other_id)
        assert record.leader is not None
        assert record.leader.broker_id != leader_id
        assert leader_id not in [member.broker_id for member in record.isr]
        next_leader = await cluster.client(record.leader.broker_id)
        answer = only(await next_leader.ask(produce("orders", batch(b"last")), 9))
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 20)
        fetched = only(await next_leader.ask(fetch("orders", wanted(0, 0)), 12))
        assert values(fetched.records) == [b"%d" % number for number in range(20)] + [b"last"]
        # The old leader comes back, follows, and is in sync again.
        await cluster.start(leader_id)
        await asyncio.sleep(40)
        assert len(record_of(cluster, other_id).isr) == 3
        assert bytes_of(replica_of(cluster, leader_id)) == bytes_of(replica_of(cluster, other_id))

    with_cluster(story, Cluster(3))
