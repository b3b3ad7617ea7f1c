"""DescribeTopicPartitions: long responses are paged, and the pages are complete."""

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    RequestedTopic,
)
from tests.sim.seams.loop import run
from tests.support.broker.recorded_answers import (
    DESCRIBE_TOPIC_PARTITIONS,
    SETTINGS,
    Pair,
    comparable,
    create_as_recorded,
    described_topics,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.simulated_broker import Client, create, new_topic, with_broker


def asking(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=tuple(RequestedTopic(name=name) for name in names),
        response_partition_limit=limit,
        cursor=Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None,
    )


async def make_some(client: Client) -> None:
    await create(client, new_topic("a", 3), new_topic("b", 1), new_topic("c", 2))


def test_every_recorded_question_is_answered_as_kafka_did() -> None:
    async def story(pair: Pair) -> None:
        machine = recorded_machine()
        async with machine.broker(**SETTINGS) as client:
            topics = described_topics(pair)
            if pair["requestJson"]["cursor"]:
                topics = [new_topic("vec-a-80296", 3), new_topic("vec-b-80296", 1)]
            await create_as_recorded(client, machine, topics)
            assert comparable(await ours(client, pair)) == comparable(pair["responseJson"])

    pairs = list(recordings(DESCRIBE_TOPIC_PARTITIONS))
    assert len(pairs) >= 5
    for pair in pairs:
        run(story(pair))


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("names", [(), ("c", "a", "missing", "b", "a")], ids=["all", "named"])
def test_the_pages_of_a_long_response_make_the_whole(limit: int, names: tuple[str, ...]) -> None:
    async def story(client: Client) -> None:
        await make_some(client)
        told: list[tuple[str, int]] = []
        cursor: tuple[str, int] | None = None
        for _ in range(10):
            response = await client.ask(asking(*names, limit=limit, cursor=cursor))
            part = [
                (topic.name, partition.partition_index)
                for topic in response.topics
                for partition in topic.partitions
            ]
            assert len(part) <= limit
            told += part
            if response.next_cursor is None:
                break
            cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)

        assert told == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]

    with_broker(story)


def test_the_cursor_is_the_start_of_the_next_page() -> None:
    async def story(client: Client) -> None:
        await make_some(client)
        inside = await client.ask(asking(limit=2))
        between = await client.ask(asking(limit=3))

        assert inside.next_cursor == Cursor(topic_name="a", partition_index=2)
        assert between.next_cursor == Cursor(topic_name="b", partition_index=0)

    with_broker(story)


def test_a_cursor_at_a_deleted_topic_continues_with_the_next() -> None:
    async def story(client: Client) -> None:
        await make_some(client)
        response = await client.ask(asking(cursor=("aa", 1)))
        assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [
            ("b", 1),
            ("c", 2),
        ]

    with_broker(story)


def test_a_limit_of_zero_still_describes_a_partition() -> None:
    async def story(client: Client) -> None:
        await make_some(client)
        response = await client.ask(asking(limit=-1))
        assert len(response.topics[0].partitions) == 1

    with_broker(story)


def test_a_missing_topic_and_an_invalid_name_have_different_errors() -> None:
    async def story(client: Client) -> None:
        response = await client.ask(asking("missing", "bad name!"))
        assert {topic.name: topic.error_code for topic in response.topics} == {
            "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "bad name!": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }

    with_broker(story)
