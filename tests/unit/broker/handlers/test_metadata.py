"""Metadata: brokers and topics, as a client can reach them."""

import asyncio
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.controller.entry_packing import MAX_RECORDS_PER_ENTRY
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic, Topic
from ottla.protocol.primitives import ZERO_UUID, Uuid
from tests.sim.seams.loop import run
from tests.support.broker.recorded_answers import (
    METADATA,
    SETTINGS,
    comparable,
    create_as_recorded,
    described_topics,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.simulated_broker import (
    HOST,
    PORT,
    Client,
    Machine,
    create,
    new_topic,
    with_broker,
)

# The default retry backoff of clients.
RETRY_BACKOFF_S = 0.1
UNKNOWN_ID = Uuid(b"nobody knows me!")
NONE, MISSING = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def asking(*names: str, ids: tuple[Uuid, ...] = (), auto: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=(
            *(RequestedTopic(name=name) for name in names),
            *(RequestedTopic(name=None, topic_id=topic_id) for topic_id in ids),
        ),
        allow_auto_topic_creation=auto,
    )


def codes(topics: tuple[Topic, ...]) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in topics]


def tell_all(pairs: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Our response and Kafka's to each recorded request, each on its own broker."""
    told: list[tuple[Any, Any]] = []

    async def story(pair: dict[str, Any]) -> None:
        machine = recorded_machine()
        async with machine.broker(**SETTINGS) as client:
            await create_as_recorded(client, machine, described_topics(pair))
            told.append((await ours(client, pair), pair["responseJson"]))

    for pair in pairs:
        run(story(pair))
    return told


def test_every_recorded_question_is_answered_as_kafka_did() -> None:
    for our_answer, kafkas in tell_all(list(recordings(METADATA))):
        assert comparable(our_answer) == comparable(kafkas)


def test_topics_are_in_kafkas_order() -> None:
    mixed = [
        pair
        for pair in recordings(METADATA)
        if pair["errors"] and len(pair["responseJson"]["topics"]) > 1
    ]
    assert len(mixed) > 10

    for our_answer, kafkas in tell_all(mixed):
        names = [(topic.get("topicId"), topic["name"]) for topic in our_answer["topics"]]
        assert names == [(topic.get("topicId"), topic["name"]) for topic in kafkas["topics"]]


def test_a_client_gets_the_address_that_it_connected_to() -> None:
    async def story(client: Client) -> None:
        response = await client.ask(asking())

        (broker,) = response.brokers
        assert (broker.node_id, broker.host, broker.port) == (7, HOST, PORT)
        assert response.controller_id == 7

    with_broker(story, node_id="7")


def test_a_client_gets_the_advertised_address() -> None:
    async def story(client: Client) -> None:
        (broker,) = (await client.ask(asking())).brokers
        assert (broker.host, broker.port) == ("kafka.example", 1234)

    with_broker(story, advertised_listeners="PLAINTEXT://kafka.example:1234")


def test_v0_without_names_means_all_topics() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("b"), new_topic("a"))

        oldest = await client.ask(MetadataRequest(topics=()), 0)
        later = await client.ask(MetadataRequest(topics=()), 1)
        every = await client.ask(MetadataRequest(topics=None), 1)

        assert codes(oldest.topics) == codes(every.topics) == [("a", NONE), ("b", NONE)]
        assert later.topics == ()

    with_broker(story)


def test_a_missing_topic_is_created_for_the_next_request() -> None:
    async def story(client: Client) -> None:
        first = await client.ask(asking("new", "bad name!", auto=True))
        await asyncio.sleep(RETRY_BACKOFF_S)
        second = await client.ask(asking("new"))

        assert codes(first.topics) == [
            ("new", MISSING),
            ("bad name!", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
        assert codes(second.topics) == [("new", NONE)]
        assert len(second.topics[0].partitions) == 3

    with_broker(story, num_partitions="3")


@pytest.mark.parametrize(
    ("auto", "setting"), [(False, "true"), (True, "false")], ids=["by the client", "by the broker"]
)
def test_no_topic_is_created_if_auto_creation_is_off(auto: bool, setting: str) -> None:
    async def story(client: Client) -> None:
        await client.ask(asking("new", auto=auto))
        assert codes((await client.ask(asking("new", auto=auto))).topics) == [("new", MISSING)]

    with_broker(story, auto_create_topics_enable=setting)


def test_internal_topics_are_not_auto_created() -> None:
    async def story(client: Client) -> None:
        await client.ask(asking("__consumer_offsets", auto=True))
        (topic,) = (await client.ask(asking("__consumer_offsets", auto=True))).topics
        assert (topic.error_code, topic.is_internal) == (MISSING, True)

    with_broker(story)


def test_a_missing_topic_is_created_once_for_many_clients() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            others = [await machine.client() for _ in range(5)]
            for each in (client, *others):
                await each.ask(asking("new", auto=True))
            await asyncio.sleep(RETRY_BACKOFF_S)
            topics = {(await each.ask(asking("new"))).topics[0].topic_id for each in others}
            assert len(topics) == 1

    run(story(), clock=machine.clock)
    assert machine.notes.events("warning") == []


def test_a_topic_that_cannot_be_created_is_logged() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await client.ask(asking("new", auto=True))
        await asyncio.sleep(RETRY_BACKOFF_S)

    with_broker(story, machine=machine, default_replication_factor="3")
    assert "topic not created" in machine.notes.events("warning")


def test_topics_requested_by_id_are_described_once() -> None:
    async def story(client: Client) -> None:
        (created,) = await create(client, new_topic("orders"))

        response = await client.ask(
            asking("orders", "orders", ids=(UNKNOWN_ID, created.topic_id, UNKNOWN_ID))
        )

        assert codes(response.topics) == [(None, ErrorCode.UNKNOWN_TOPIC_ID), ("orders", NONE)]
        assert [topic.topic_id for topic in response.topics] == [UNKNOWN_ID, created.topic_id]

    with_broker(story)


@pytest.mark.parametrize("version", [10, 12, 13])
def test_a_topic_without_name_and_id_is_refused(version: int) -> None:
    async def story(client: Client) -> None:
        response = await client.ask(asking(ids=(ZERO_UUID,)), version)
        assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]
        assert response.brokers == ()

    with_broker(story)


def test_a_recreated_topic_has_a_later_leader_epoch() -> None:
    async def story(client: Client) -> None:
        epochs = []
        for _ in range(3):
            await create(client, new_topic("orders"))
            (topic,) = (await client.ask(asking("orders"))).topics
            epochs.append(topic.partitions[0].leader_epoch)
            await client.ask(DeleteTopicsRequest(topic_names=("orders",), timeout_ms=0), 5)
        assert epochs == [0, 1, 2]

    with_broker(story)


def test_a_topic_of_a_new_name_begins_at_leader_epoch_0_after_a_deletion() -> None:
    """Otherwise consumers that seek with leader epoch 0 would restart at the beginning."""
    machine = Machine()

    async def leader_epoch(client: Client, name: str) -> int:
        await create(client, new_topic(name))
        (topic,) = (await client.ask(asking(name))).topics
        epoch: int = topic.partitions[0].leader_epoch
        await client.ask(DeleteTopicsRequest(topic_names=(name,), timeout_ms=0), 5)
        return epoch

    async def story() -> None:
        async with machine.broker() as client:
            assert await leader_epoch(client, "orders") == 0
            assert await leader_epoch(client, "payments") == 0
        async with machine.broker() as client:
            assert await leader_epoch(client, "invoices") == 0
            assert await leader_epoch(client, "orders") == 1

    run(story(), clock=machine.clock)


def test_after_a_restart_topics_are_led_again_with_a_later_epoch() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            (created,) = await create(client, new_topic("orders", 2))
        async with machine.broker() as client:
            (topic,) = (await client.ask(asking("orders"))).topics
            assert topic.topic_id == created.topic_id
            assert [each.leader_id for each in topic.partitions] == [1, 1]
            assert [each.leader_epoch for each in topic.partitions] == [1, 1]
            assert [each.isr_nodes for each in topic.partitions] == [(1,), (1,)]

    run(story(), clock=machine.clock)
    assert "possible data loss" not in machine.notes.events("warning")


def test_after_a_power_loss_a_broker_leads_again_and_logs_possible_data_loss() -> None:
    machine = Machine()

    async def story() -> None:
        node = machine.node()
        await node.start()
        client = await machine.client()
        await create(client, new_topic("orders", 2))
        machine.disk.power_loss()
        machine.net.crash()
        async with machine.broker() as client:
            (topic,) = (await client.ask(asking("orders"))).topics
            assert [each.leader_id for each in topic.partitions] == [1, 1]
            assert [each.leader_epoch for each in topic.partitions] == [1, 1]

    run(story(), clock=machine.clock)
    lost = [
        fields["partition"]
        for _, event, fields in machine.notes.entries
        if event == "possible data loss"
    ]
    assert lost == ["orders-0", "orders-1"]


def test_a_restart_with_more_partitions_than_an_entry_holds_leads_all_of_them_again() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("orders", MAX_RECORDS_PER_ENTRY + 1))
        async with machine.broker() as client:
            (topic,) = (await client.ask(asking("orders"))).topics
            assert len(topic.partitions) == MAX_RECORDS_PER_ENTRY + 1
            assert {each.leader_epoch for each in topic.partitions} == {1}
            assert {each.error_code for each in topic.partitions} == {NONE}

    run(story(), clock=machine.clock)
