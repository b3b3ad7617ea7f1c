"""DeleteRecords, over the wire."""

from typing import Any

import pytest

from ottla.protocol.messages.delete_records import DeleteRecordsRequest, Partition, Topic
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.recorded_answers import ours, recordings
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker


def delete(*offsets: int, topic: str = "events") -> DeleteRecordsRequest:
    """Deletes records before these offsets, one per partition."""
    partitions = tuple(
        Partition(partition_index=index, offset=offset) for index, offset in enumerate(offsets)
    )
    return DeleteRecordsRequest(
        topics=(Topic(name=topic, partitions=partitions),), timeout_ms=1_000
    )


async def fill(client: Client, topic: str, count: int, partitions: int = 1) -> None:
    await create(client, new_topic(topic, partitions))
    for _ in range(count):
        await client.ask(produce(topic, *(batch() for _ in range(partitions))), 9)


def test_answers_to_recorded_requests_are_those_of_kafka() -> None:
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await fill(client, "vec-a-80296", 22, partitions=3)
        await fill(client, "vec-b-80296", 2)
        for pair in recordings(21):
            topics = {topic["name"] for topic in pair["requestJson"]["topics"]}
            if topics <= {"vec-a-80296", "vec-b-80296", "no-such-x"}:
                assert answers(await ours(client, pair)) == answers(pair["responseJson"]), pair
                compared.update(pair["errors"])

    with_broker(story)
    assert compared == {1, 3}


def answers(response: Any) -> list[Any]:
    found = [
        {**partition, "topic": topic["name"]}
        for topic in response["topics"]
        for partition in topic["partitions"]
    ]
    return sorted(found, key=str)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_deleted_records_are_not_read_and_each_partition_has_its_result(
    version: int,
) -> None:
    async def story(client: Client) -> None:
        await fill(client, "events", 5, partitions=3)
        response = await client.ask(delete(2, 6, -1), version)
        found = [(each.low_watermark, each.error_code) for each in response.topics[0].partitions]
        assert found == [(2, 0), (-1, 1), (5, 0)]
        first = only(await client.ask(fetch("events", wanted(0, 2)), 12))
        assert (len(values(first.records)), first.log_start_offset) == (3, 2)
        before = only(await client.ask(fetch("events", wanted(0, 1)), 12))
        assert before.error_code == 1

    with_broker(story)


def test_the_log_start_offset_survives_a_restart() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker() as client:
            await fill(client, "events", 5)
            assert only(await client.ask(delete(3))).low_watermark == 3
        async with machine.broker() as client:
            assert only(await client.ask(delete(0))).low_watermark == 3

    run(tell(), clock=machine.clock)
