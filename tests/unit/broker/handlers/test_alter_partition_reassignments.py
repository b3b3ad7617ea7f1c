"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments of a single broker."""

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages import alter_partition_reassignments as alter
from ottla.protocol.messages import list_partition_reassignments as listing
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support.broker.recorded_answers import (
    SETTINGS,
    comparable,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.simulated_broker import Client, create, new_topic, with_broker

ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 43, 45, 46
NONE = ErrorCode.NONE
NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
PREFERRED, UNCLEAN = 0, 1


async def create_recorded_topics(client: Client) -> None:
    """Creates the topics of the recorded responses, with their partitions."""
    await create(
        client,
        new_topic("vec-a-80296", 3),
        new_topic("vec-b-80296"),
        new_topic("compat897625764"),
        new_topic("test_elect_leaders_ZxsflSjdri", 4),
        new_topic("test_alter_partition_reassignments_vkDkCOWGVz", 4),
    )


def election(kind: int, **topics: tuple[int, ...]) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        election_type=kind,
        topic_partitions=tuple(
            TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics.items()
        ),
    )


def results(response: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.topic, each.partition_id): ErrorCode(each.error_code)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


def test_every_recorded_election_is_answered_as_kafka_did() -> None:
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await create_recorded_topics(client)
        for pair in recordings(ELECT_LEADERS):
            if pair["requestJson"]["topicPartitions"] is not None:
                answer = await ours(client, pair)
                assert comparable(answer) == comparable(pair["responseJson"]), pair
                compared.update(pair["errors"])

    with_broker(story, machine=recorded_machine(), **SETTINGS)
    assert compared == {NOT_NEEDED, UNKNOWN}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_election_of_all_partitions_lists_those_that_needed_one(version: int) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 3), new_topic("events"))
        request = ElectLeadersRequest(topic_partitions=None)
        answered = (await client.ask(request, version)).replica_election_results
        assert [(topic.topic, topic.partition_result) for topic in answered] == [
            ("events", ()),
            ("orders", ()),
        ]

    with_broker(story)


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_a_partition_named_twice_is_answered_once(kind: int) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        response = await client.ask(election(kind, orders=(0, 0, 1)))
        (topic,) = response.replica_election_results
        assert [each.partition_id for each in topic.partition_result] == [0, 1]
        assert results(response) == {("orders", 0): NOT_NEEDED, ("orders", 1): UNKNOWN}

    with_broker(story)


def test_an_unknown_election_type_is_refused() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        response = await client.ask(election(7, orders=(0,)))
        assert response.error_code == ErrorCode.INVALID_REQUEST

    with_broker(story)


def test_a_large_topic_is_decided_in_portions_and_answered_whole() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 1000))
        response = await client.ask(election(PREFERRED, orders=tuple(range(1001))))
        told = results(response)
        assert len(told) == 1001
        assert set(told.values()) == {NOT_NEEDED, UNKNOWN}
        assert told["orders", 1000] == UNKNOWN

    with_broker(story)


def test_every_recorded_reassignment_is_answered_as_kafka_did() -> None:
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await create_recorded_topics(client)
        for pair in recordings(ALTER_REASSIGNMENTS):
            answer = await ours(client, pair)
            assert comparable(answer) == comparable(pair["responseJson"]), pair
            compared.update(pair["errors"])

    with_broker(story, machine=recorded_machine(), **SETTINGS)
    assert compared == {
        UNKNOWN,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    }


def test_the_last_target_of_a_partition_counts() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        partitions = tuple(
            alter.Partition(partition_index=0, replicas=replicas) for replicas in ((9,), (1,))
        )
        request = alter.AlterPartitionReassignmentsRequest(
            topics=(alter.Topic(name="orders", partitions=partitions),)
        )
        (topic,) = (await client.ask(request)).responses
        (result,) = topic.partitions
        assert (result.partition_index, result.error_code) == (0, NONE)

    with_broker(story)


def test_every_recorded_list_of_reassignments_is_answered_as_kafka_did() -> None:
    compared = 0

    async def story(client: Client) -> None:
        nonlocal compared
        await create_recorded_topics(client)
        for pair in recordings(LIST_REASSIGNMENTS):
            assert await ours(client, pair) == pair["responseJson"], pair
            compared += 1

    with_broker(story, machine=recorded_machine(), **SETTINGS)
    assert compared >= 4


def test_a_reassignment_to_the_same_replicas_is_done_at_once() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders", 2))
        request = alter.AlterPartitionReassignmentsRequest(
            topics=(
                alter.Topic(
                    name="orders",
                    partitions=(alter.Partition(partition_index=1, replicas=(1,)),),
                ),
            )
        )
        answered = await client.ask(request)
        assert answered.responses[0].partitions[0].error_code == NONE
        listed = await client.ask(listing.ListPartitionReassignmentsRequest(topics=None))
        assert (listed.error_code, listed.topics) == (NONE, ())

    with_broker(story)
