"""A log that goes offline on a live broker is reported to the controller."""

import asyncio

from ottla.metadata.values import PartitionId
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import create, new_topic


def test_the_controller_is_told_on_whichever_broker_it_runs() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        for name, replicas in (("led-by-2", (2, 1)), ("led-by-1", (1, 2)), ("alone", (2,))):
            topic = new_topic(name, assignments={0: replicas}, partitions=-1, factor=-1)
            await create(client, topic)
        await asyncio.sleep(1)
        for broker_id in (1, 2):
            node = cluster.nodes[broker_id]
            assert node._replicas is not None
            for replica in node._replicas:
                # As after a failed log directory.
                replica.is_unusable = replica.partition.is_leader
        await asyncio.sleep(5)
        publisher = cluster.nodes[1]._publisher
        assert publisher is not None
        image = publisher.image
        led = {}
        for name in ("led-by-1", "led-by-2", "alone"):
            topic_of = image.topic(name)
            assert topic_of is not None
            (record,) = image.partitions(topic_of.topic_id)
            led[name] = None if record.leader is None else record.leader.broker_id
            where = PartitionId(topic_of.topic_id, 0)
            reported = [each.broker_id for each in image.brokers.values() if where in each.offline]
            assert reported == {"led-by-1": [1], "led-by-2": [2], "alone": []}[name]
        assert led == {"led-by-1": 2, "led-by-2": 1, "alone": 2}

    with_cluster(story)


def test_a_log_in_a_failed_directory_is_never_served_as_an_empty_one() -> None:
    cluster = Cluster(log_dirs="/a,/b")

    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        for number in range(4):
            topic = new_topic(f"t{number}", assignments={0: (2,)}, partitions=-1, factor=-1)
            await create(client, topic)
            assert only(await client.ask(produce(f"t{number}", batch(b"x")), 9)).error_code == 0
        node = cluster.nodes.pop(2)
        await node.stop()
        files = cluster.machine(2).disk.process()
        lost = sorted(name for name in files.list("/b") if name.startswith("t"))
        assert 0 < len(lost) < 4
        files.rename("/b", "/away")
        await cluster.start(2)
        client = await cluster.client(2)
        codes = {
            f"t{number}-0": only(await client.ask(produce(f"t{number}", batch(b"y")), 9)).error_code
            for number in range(4)
        }
        assert sorted(name for name, code in codes.items() if code == 56) == lost
        assert {code for name, code in codes.items() if name not in lost} == {0}

    with_cluster(story, cluster)
