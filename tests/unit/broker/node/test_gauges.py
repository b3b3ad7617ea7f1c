"""The gauges of a broker's partitions in a scrape."""

import asyncio

from ottla.broker.node.node import Node
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
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
