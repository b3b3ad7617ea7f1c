"""CreateTopics, DeleteTopics and CreatePartitions, compared with Kafka's responses."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.create_partitions import Assignment as MoreAssignment
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest
from ottla.protocol.messages.create_partitions import Topic as MoreTopic
from ottla.protocol.messages.create_topics import CreateTopicsRequest, Topic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics import Topic as DeletedTopic
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.primitives import ZERO_UUID, Uuid
from tests.sim.seams.loop import run
from tests.support.broker.recorded_answers import (
    DELETE_TOPICS,
    SETTINGS,
    Pair,
    comparable,
    create_as_recorded,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker

CREATE_TOPICS, CREATE_PARTITIONS = 19, 37
NONE = ErrorCode.NONE
UNKNOWN_ID = Uuid(b"nobody knows me!")


async def topic_names(client: Client) -> list[str]:
    response = await client.ask(MetadataRequest(topics=None))
    return [topic.name for topic in response.topics]


async def partition_counts(client: Client) -> dict[str, int]:
    response = await client.ask(MetadataRequest(topics=None))
    return {topic.name: len(topic.partitions) for topic in response.topics}


def replayed(key: int, topics_before: Any) -> list[tuple[Pair, Any]]:
    """Replays every recorded request of an API, each to a broker with the right topics."""
    told = []

    async def story(pair: Pair) -> None:
        machine = recorded_machine()
        async with machine.broker(**SETTINGS) as client:
            await create_as_recorded(client, machine, topics_before(pair))
            told.append((pair, await ours(client, pair)))

    for pair in recordings(key):
        run(story(pair))
    return told


# --- CreateTopics -----------------------------------------------------------------------------


def existing(pair: Pair) -> list[Topic]:
    return [
        new_topic(topic["name"])
        for topic in pair["responseJson"]["topics"]
        if topic["errorCode"] == ErrorCode.TOPIC_ALREADY_EXISTS
    ]


def made_alike(answer: Any) -> Any:
    """Without what a new topic gets by chance, and with Kafka's own default of one setting.

    The recorded broker had set min.insync.replicas for the whole cluster.
    """
    for topic in answer["topics"]:
        if topic["errorCode"] == NONE:
            topic.pop("topicId", None)
        for config in topic.get("configs", ()):
            if config["configSource"] == 3:
                config["configSource"] = 5
    return comparable(answer)


def test_every_recorded_creation_is_answered_as_kafka_did() -> None:
    told = replayed(CREATE_TOPICS, existing)

    assert len(told) > 20
    for pair, our_answer in told:
        names = [topic["name"] for topic in our_answer["topics"]]
        assert names == [topic["name"] for topic in pair["responseJson"]["topics"]]
        assert made_alike(our_answer) == made_alike(pair["responseJson"])


def test_the_configs_of_a_new_topic_are_in_order_with_their_source() -> None:
    async def story(client: Client) -> None:
        (result,) = await create(client, new_topic("orders", configs={"retention.ms": "5"}))

        names = [config.name for config in result.configs]
        assert names == sorted(names)
        (retention,) = [each for each in result.configs if each.name == "retention.ms"]
        assert (retention.value, retention.config_source) == ("5", 1)

    with_broker(story)


def test_validate_only_creates_nothing() -> None:
    async def story(client: Client) -> None:
        request = CreateTopicsRequest(
            topics=(new_topic("orders", -1, factor=-1), new_topic("none", 0)), validate_only=True
        )
        would_be, refused = (await client.ask(request)).topics

        assert (would_be.error_code, would_be.num_partitions) == (NONE, 5)
        assert would_be.topic_id == ZERO_UUID
        assert refused.error_code == ErrorCode.INVALID_PARTITIONS
        assert await topic_names(client) == []

    with_broker(story, num_partitions="5")


def test_a_topic_named_twice_is_refused_once_and_the_others_are_created() -> None:
    async def story(client: Client) -> None:
        request = CreateTopicsRequest(
            topics=(new_topic("twice"), new_topic("once"), new_topic("twice", 2))
        )
        response = await client.ask(request)

        assert [(each.name, each.error_code) for each in response.topics] == [
            ("twice", ErrorCode.INVALID_REQUEST),
            ("once", NONE),
        ]
        assert await topic_names(client) == ["once"]

    with_broker(story)


def test_two_assignments_of_one_partition_are_refused() -> None:
    async def story(client: Client) -> None:
        topic = new_topic("orders", -1, factor=-1, assignments={0: (1,)})
        doubled = Topic(
            name="orders",
            num_partitions=-1,
            replication_factor=-1,
            assignments=topic.assignments * 2,
            configs=(),
        )
        (result,) = (await client.ask(CreateTopicsRequest(topics=(doubled,)))).topics
        assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    with_broker(story)


def test_a_full_disk_refuses_a_topic_until_it_has_space() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        machine.disk.faults.fail_next_write("*/__ottla_metadata-0/*")
        (refused,) = (await client.ask(CreateTopicsRequest(topics=(new_topic("new"),)))).topics
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await topic_names(client) == []

        await create(client, new_topic("new"))
        assert await topic_names(client) == ["new"]

    with_broker(story, machine=machine)


# --- DeleteTopics -----------------------------------------------------------------------------


def to_be_deleted(pair: Pair) -> list[Topic]:
    return [
        new_topic(topic["name"])
        for topic in pair["responseJson"]["responses"]
        if topic["errorCode"] == NONE
    ]


def test_every_recorded_deletion_is_answered_as_kafka_did() -> None:
    told = replayed(DELETE_TOPICS, to_be_deleted)

    assert len(told) > 10
    for pair, our_answer in told:
        assert comparable(our_answer) == comparable(pair["responseJson"])


def test_a_deleted_topic_stays_deleted_after_a_restart() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("orders"), new_topic("kept"))
            request = DeleteTopicsRequest(topic_names=("orders",), timeout_ms=0)
            (result,) = (await client.ask(request, 5)).responses
            assert (result.error_code, result.error_message) == (NONE, None)
            assert await topic_names(client) == ["kept"]
        async with machine.broker() as client:
            assert await topic_names(client) == ["kept"]

    run(story(), clock=machine.clock)


def test_a_topic_is_named_by_name_or_by_id_and_once() -> None:
    async def story(client: Client) -> None:
        (created,) = await create(client, new_topic("orders"))
        request = DeleteTopicsRequest(
            topics=(
                DeletedTopic(name=None, topic_id=ZERO_UUID),
                DeletedTopic(name="orders", topic_id=created.topic_id),
                DeletedTopic(name="orders", topic_id=ZERO_UUID),
                DeletedTopic(name="orders", topic_id=ZERO_UUID),
                DeletedTopic(name=None, topic_id=UNKNOWN_ID),
            ),
            timeout_ms=0,
        )
        response = await client.ask(request)

        assert [each.error_code for each in response.responses] == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]
        assert await topic_names(client) == ["orders"]

    with_broker(story)


@pytest.mark.parametrize("version", [1, 6])
def test_nothing_is_deleted_if_deletion_is_disabled(version: int) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        request = DeleteTopicsRequest(
            topics=(DeletedTopic(name="orders", topic_id=ZERO_UUID),) if version == 6 else (),
            topic_names=("orders",),
            timeout_ms=0,
        )
        (result,) = (await client.ask(request, version)).responses
        assert (result.name, result.error_code) == ("orders", ErrorCode.TOPIC_DELETION_DISABLED)
        assert await topic_names(client) == ["orders"]

    with_broker(story, delete_topic_enable="false")


# --- CreatePartitions -------------------------------------------------------------------------


def to_be_grown(pair: Pair) -> list[Topic]:
    """The topics of the recordings. Recorded errors and assignments give their sizes."""
    sizes = {"vec-a-80296": 3, "vec-b-80296": 1}
    known = {
        result["name"]
        for result in pair["responseJson"]["results"]
        if result["errorCode"] != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    return [
        new_topic(
            topic["name"],
            sizes.get(topic["name"], topic["count"] - len(topic["assignments"] or [None])),
        )
        for topic in pair["requestJson"]["topics"]
        if topic["name"] in known
    ]


def test_every_recorded_growth_is_answered_as_kafka_did() -> None:
    told = replayed(CREATE_PARTITIONS, to_be_grown)

    assert len(told) > 12
    for pair, our_answer in told:
        assert comparable(our_answer) == comparable(pair["responseJson"])


def test_a_topic_grows_unless_that_is_only_validated() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 1))
        for validate_only, expected in ((True, 1), (False, 3)):
            request = CreatePartitionsRequest(
                topics=(MoreTopic(name="orders", count=3, assignments=None),),
                timeout_ms=0,
                validate_only=validate_only,
            )
            (result,) = (await client.ask(request)).results
            assert (result.error_code, result.error_message) == (NONE, None)
            assert await partition_counts(client) == {"orders": expected}

    with_broker(story)


def test_a_topic_named_twice_does_not_grow_and_the_others_do() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("twice"), new_topic("once"))
        request = CreatePartitionsRequest(
            topics=(
                MoreTopic(name="twice", count=2, assignments=None),
                MoreTopic(name="once", count=2, assignments=(MoreAssignment(broker_ids=(1,)),)),
                MoreTopic(name="twice", count=3, assignments=None),
            ),
            timeout_ms=0,
            validate_only=False,
        )
        response = await client.ask(request)

        assert [(each.name, each.error_code) for each in response.results] == [
            ("twice", ErrorCode.INVALID_REQUEST),
            ("once", NONE),
        ]
        assert await partition_counts(client) == {"once": 2, "twice": 1}

    with_broker(story)
