"""ListOffsets, over the wire."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.list_offsets import ListOffsetsRequest, Partition, Topic
from tests.support.broker.produce_and_fetch import NOW_MS, batch, only, produce
from tests.support.broker.recorded_answers import ours, recordings
from tests.support.broker.simulated_broker import Client, create, new_topic, with_broker

RECORDED_TOPIC = "vec-a-80296"


def ask_for(
    *timestamps: int, isolation: int = 0, leader_epoch: int = -1, replica_id: int = -1
) -> ListOffsetsRequest:
    """A request about the first partitions of `events`, one per timestamp."""
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=(
            Topic(
                name="events",
                partitions=tuple(
                    Partition(
                        partition_index=index,
                        timestamp=timestamp,
                        current_leader_epoch=leader_epoch,
                    )
                    for index, timestamp in enumerate(timestamps)
                ),
            ),
        ),
    )


def test_answers_to_recorded_requests_are_those_of_kafka() -> None:
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await create(client, new_topic(RECORDED_TOPIC, 3))
        for pair in recordings(2):
            topics = {topic["name"] for topic in pair["requestJson"]["topics"]}
            if topics <= {RECORDED_TOPIC, "no-such-x"}:
                assert answers(await ours(client, pair)) == answers(pair["responseJson"]), pair
                compared.update(pair["errors"])

    with_broker(story)
    assert compared == {3, 35, 42, 75}


def answers(response: Any) -> list[Any]:
    found = [
        {**partition, "topic": topic["name"]}
        for topic in response["topics"]
        for partition in topic["partitions"]
    ]
    return sorted(found, key=str)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_has_first_and_last_offsets_and_offsets_by_time(version: int) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 4))
        times = (NOW_MS, NOW_MS + 100)
        for timestamp_ms in times:
            sent = [batch(b"a", b"b", timestamp_ms=timestamp_ms) for _ in range(4)]
            await client.ask(produce("events", *sent), 9)
        response = await client.ask(ask_for(-2, -1, NOW_MS + 50, NOW_MS + 500), version)
        found = [(each.timestamp, each.offset) for each in response.topics[0].partitions]
        assert found == [(-1, 0), (-1, 4), (NOW_MS + 100, 2), (-1, -1)]
        epochs = [each.leader_epoch for each in response.topics[0].partitions]
        assert epochs == ([0, 0, 0, -1] if version >= 4 else [-1] * 4)

    with_broker(story)


@pytest.mark.parametrize(
    ("timestamp", "since", "found"),
    [
        (-3, 7, (NOW_MS + 1, 1, 0)),
        (-4, 8, (-1, 0, 0)),
        (-5, 9, (-1, -1, -1)),
        (-6, 11, (-1, -1, -1)),
        (-7, 12, None),
    ],
)
def test_special_times_are_known_from_their_version_on(
    timestamp: int, since: int, found: tuple[int, int, int] | None
) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        await client.ask(produce("events", batch(b"a", b"b")), 9)
        for version in range(1, 12):
            result = only(await client.ask(ask_for(timestamp), version))
            if version < since:
                assert result.error_code == ErrorCode.UNSUPPORTED_VERSION
                assert (result.timestamp, result.offset) == (-1, -1)
            else:
                assert result.error_code == 0
                assert (result.timestamp, result.offset, result.leader_epoch) == found

    with_broker(story)


def test_a_partition_asked_for_twice_is_refused_once() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        twice = ask_for(-1, -1)
        doubled = ListOffsetsRequest(replica_id=-1, topics=(*twice.topics, *ask_for(-2).topics))
        response = await client.ask(doubled, 7)
        codes = [
            (each.partition_index, each.error_code)
            for topic in response.topics
            for each in topic.partitions
        ]
        assert codes == [(0, 42), (1, 0), (0, 42)]

    with_broker(story)


def test_a_wrong_leader_epoch_and_a_wrong_isolation_level_are_refused() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        newer = only(await client.ask(ask_for(-1, leader_epoch=3), 7))
        assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        unknown = only(await client.ask(ask_for(-1, isolation=5), 7))
        assert unknown.error_code == ErrorCode.INVALID_REQUEST
        debugging = only(await client.ask(ask_for(-1, replica_id=-2), 7))
        assert (debugging.error_code, debugging.offset) == (0, 0)

    with_broker(story)
