"""The gauges of a broker's partitions in a scrape."""

import asyncio
from dataclasses import replace

from ottla.broker.node.node import Node
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.support.broker.cluster import Cluster, with_cluster
from tests.support.broker.nodes import with_node
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic


def shown(node: Node) -> dict[str, str]:
    """Every sample of a scrape, by name and labels."""
    page = b"".join(node.metrics.render()).decode()
    return dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))


def test_metrics_of_partitions_and_topics_appear_and_disappear_with_them() -> None:
    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events", 3))
        for value in (b"a", b"b"):
            assert only(await client.ask(produce("events", batch(value)), 9)).error_code == 0
        await asyncio.sleep(2)
        samples = shown(node)
        assert samples["kafka_server_replicamanager_leadercount"] == "3"
        assert samples["kafka_server_replicamanager_partitioncount"] == "3"
        assert samples["kafka_server_replicamanager_underreplicatedpartitions"] == "0"
        assert samples["kafka_controller_kafkacontroller_activecontrollercount"] == "1"
        assert samples["kafka_controller_kafkacontroller_activebrokercount"] == "1"
        assert samples["kafka_controller_kafkacontroller_globaltopiccount"] == "1"
        assert samples["kafka_controller_kafkacontroller_globalpartitioncount"] == "3"
        assert samples["kafka_controller_kafkacontroller_offlinepartitionscount"] == "0"
        ends = [name for name in samples if name.startswith("kafka_log_log_logendoffset")]
        assert [samples[name] for name in ends] == ["2"], "the others have no log yet"
        await client.ask(DeleteTopicsRequest(topic_names=("events",), timeout_ms=1_000), 5)
        await asyncio.sleep(2)
        samples = shown(node)
        assert samples["kafka_server_replicamanager_partitioncount"] == "0"
        assert not [name for name in samples if "events" in name]

    with_node(story)


def test_a_log_whose_disk_fails_is_shown_as_offline() -> None:
    machine = Machine()

    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events", configs={"flush.messages": "1"}))
        machine.disk.faults.fail_next_sync("*events-0*.log")
        await client.ask(produce("events", batch(b"a")), 9)
        await asyncio.sleep(2)
        assert shown(node)["kafka_server_replicamanager_offlinereplicacount"] == "1"

    with_node(story, machine)


REPLICAS = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"


async def replicated(cluster: Cluster) -> None:
    """Topics with one partition each, on three, two and one of the brokers."""
    client = await cluster.client(1)
    for name, replicas in (("events", (1, 2, 3)), ("pairs", (2, 1)), ("alone", (3,))):
        configs: dict[str, str | None] = {"min.insync.replicas": "2"}
        topic = new_topic(name, -1, factor=-1, assignments={0: replicas}, configs=configs)
        await create(client, topic)
    await asyncio.sleep(3)


def of_broker(samples: dict[str, str]) -> tuple[str, ...]:
    names = (
        "leadercount",
        "partitioncount",
        "underreplicatedpartitions",
        "underminisrpartitioncount",
        "atminisrpartitioncount",
    )
    return tuple(samples[REPLICAS + name] for name in names)


def of_controller(samples: dict[str, str]) -> tuple[str, ...]:
    names = (
        "activecontrollercount",
        "activebrokercount",
        "fencedbrokercount",
        "globaltopiccount",
        "globalpartitioncount",
        "offlinepartitionscount",
        "preferredreplicaimbalancecount",
    )
    return tuple(samples[CONTROLLER + name] for name in names)


def test_the_gauges_of_a_replicated_topic_follow_its_brokers() -> None:
    async def story(cluster: Cluster) -> None:
        await replicated(cluster)
        samples = {each: shown(node) for each, node in cluster.nodes.items()}
        assert of_broker(samples[1]) == ("1", "2", "0", "0", "0")
        assert of_broker(samples[2]) == ("1", "2", "0", "0", "1")
        assert of_broker(samples[3]) == ("1", "2", "0", "0", "1"), "one replica is all it has"
        assert of_controller(samples[1]) == ("1", "3", "0", "3", "3", "0", "0")
        assert of_controller(samples[2]) == ("0",) * 7, "another is the controller"
        await cluster.kill(2)
        await cluster.kill(3)
        await asyncio.sleep(3)
        left = shown(cluster.nodes[1])
        assert of_broker(left) == ("2", "2", "2", "2", "0")
        assert of_controller(left) == ("1", "1", "2", "3", "3", "1", "2")

    with_cluster(story, Cluster(3))


def test_the_lag_of_followers_is_shown_by_their_leaders() -> None:
    maximum = 'kafka_server_replicafetchermanager_maxlag{clientId="Replica"}'

    async def story(cluster: Cluster) -> None:
        await replicated(cluster)
        node = cluster.nodes[2]
        assert shown(node)[maximum] == "0"
        assert node._replicas is not None
        followed = node._replicas.named("events", 0)
        assert followed is not None
        # As if the leader had answered without the records.
        followed.partition.replicated(0, 7)
        await asyncio.sleep(2)
        samples = shown(node)
        assert samples[maximum] == "7"
        assert samples['ottla_replica_max_lag{leader="1"}'] == "7"
        followed.partition.replicated(0, 0)
        await asyncio.sleep(2)
        assert shown(node)[maximum] == "0"
        leads_only = shown(cluster.nodes[3])
        assert leads_only[maximum] == "0"

    with_cluster(story, Cluster(3))


def test_replicas_that_a_reassignment_adds_do_not_make_a_partition_under_replicated() -> None:
    async def story(cluster: Cluster) -> None:
        client = await cluster.client(1)
        await create(client, new_topic("events", -1, factor=-1, assignments={0: (1,)}))
        publisher, replicas = cluster.nodes[1]._publisher, cluster.nodes[1]._replicas
        assert publisher is not None
        assert replicas is not None
        replica = replicas.named("events", 0)
        assert replica is not None
        image, partition = publisher.image, replica.partition
        record = image.partition(partition.topic_id, 0)
        assert record is not None
        gauge = f"{REPLICAS}underreplicatedpartitions"
        for adding, shown_as in (((), "1"), ((2,), "0")):
            partition.replicas = (1, 2)
            changed = replace(record, replicas=(1, 2), adding=adding)
            image._topics[partition.topic_id].partitions[0] = changed
            await asyncio.sleep(2)
            assert shown(cluster.nodes[1])[gauge] == shown_as

    with_cluster(story)
