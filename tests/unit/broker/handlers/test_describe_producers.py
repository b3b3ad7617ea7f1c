"""DescribeProducers: the producers of a partition that its leader remembers."""

from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, RequestedTopic
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.recorded_answers import (
    SETTINGS,
    comparable,
    ours,
    recorded_machine,
    recordings,
)
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker

DESCRIBE_PRODUCERS = 61
NONE = ErrorCode.NONE


def asking(*indexes: int, topic: str = "orders") -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=(RequestedTopic(name=topic, partition_indexes=indexes),))


async def write(client: Client, producer_id: int, sequence: int, timestamp_ms: int) -> None:
    records = batch(
        b"a",
        b"b",
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=sequence,
    )
    assert only(await client.ask(produce("orders", records), 9)).error_code == NONE


async def told(client: Client, index: int = 0) -> dict[int, tuple[Any, ...]]:
    """The description of each producer of a partition, by producer id."""
    partition = only(await client.ask(asking(index)))
    assert (partition.error_code, partition.error_message) == (NONE, None)
    return {
        each.producer_id: (
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in partition.active_producers
    }


def test_every_recorded_question_is_answered_as_kafka_did_but_for_transactions() -> None:
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await create(client, new_topic("vec-tx-80348", 2), new_topic("compat897625764-tout"))
        for pair in recordings(DESCRIBE_PRODUCERS):
            for topic in pair["responseJson"]["topics"]:
                for partition in topic["partitions"]:
                    # Nobody can write in transactions here.
                    partition["activeProducers"] = []
            answer = await ours(client, pair)
            assert comparable(answer) == comparable(pair["responseJson"]), pair
            compared.update(pair["errors"])

    with_broker(story, machine=recorded_machine(), **SETTINGS)
    assert compared == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_each_producer_is_described_with_its_last_batch_and_survives_a_restart() -> None:
    machine = Machine()
    now_ms = machine.clock.wall_ms()
    expected = {7: (3, 3, now_ms + 6, -1, -1), 8: (3, 1, now_ms + 1, -1, -1)}

    async def story() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("orders", 2))
            await write(client, 7, 0, now_ms)
            await write(client, 7, 2, now_ms + 5)
            await write(client, 8, 0, now_ms)
            assert await told(client) == expected
            assert await told(client, 1) == {}
        async with machine.broker() as client:
            assert await told(client) == expected

    run(story(), clock=machine.clock)


def test_a_producer_without_an_id_is_not_listed() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        assert only(await client.ask(produce("orders", batch()), 9)).error_code == NONE
        assert await told(client) == {}

    with_broker(story)


def test_a_partition_named_twice_is_described_once() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("orders"))
        (topic,) = (await client.ask(asking(0, 0, 5))).topics
        assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
            (0, NONE),
            (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]

    with_broker(story)


def test_an_invalid_topic_name_has_its_own_error() -> None:
    async def story(client: Client) -> None:
        partition = only(await client.ask(asking(0, topic="a b")))
        assert partition.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    with_broker(story)
