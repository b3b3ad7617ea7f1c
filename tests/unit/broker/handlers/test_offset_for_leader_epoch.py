"""OffsetForLeaderEpoch, over the wire."""

from typing import Any

import pytest

from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    Partition,
    Topic,
)
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.recorded_answers import ours, recordings
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker


def ask_for(leader_epoch: int, current_leader_epoch: int = -1) -> OffsetForLeaderEpochRequest:
    partition = Partition(
        partition=0, leader_epoch=leader_epoch, current_leader_epoch=current_leader_epoch
    )
    return OffsetForLeaderEpochRequest(topics=(Topic(topic="events", partitions=(partition,)),))


def test_answers_to_recorded_requests_are_those_of_kafka() -> None:
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await create(client, new_topic("vec-a-80296", 3))
        for _ in range(69):
            await client.ask(produce("vec-a-80296", batch()), 9)
        for pair in recordings(23):
            answer: Any = await ours(client, pair)
            assert answer == pair["responseJson"], "to the letter, in the request's order"
            compared.update(pair["errors"])

    with_broker(story)
    assert compared == {3, 75}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_epoch_ends_where_the_next_began_also_after_restarts(version: int) -> None:
    machine = Machine()

    async def append_and_ask(client: Client, leader_epoch: int) -> tuple[int, int, int]:
        await client.ask(produce("events", batch(b"a", b"b")), 9)
        result = only(await client.ask(ask_for(leader_epoch), version))
        return result.error_code, result.leader_epoch, result.end_offset

    async def tell() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("events"))
            assert await append_and_ask(client, 0) == (0, 0, 2)
        async with machine.broker() as client:
            assert await append_and_ask(client, 0) == (0, 0, 2)
            fenced = only(await client.ask(ask_for(0, current_leader_epoch=0), version))
            assert (fenced.error_code, fenced.leader_epoch, fenced.end_offset) == (74, -1, -1)

    run(tell(), clock=machine.clock)
