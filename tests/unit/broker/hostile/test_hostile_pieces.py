"""Recorded traffic cut as no client would: the same replies, in the same order."""

import asyncio
import base64
import dataclasses
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.broker.requests.served_apis import SERVED
from ottla.protocol.exchange import decode_correlation_id
from tests.sim.seams.wire import Conditions
from tests.support.broker.hostile_clients import Stranger, Street, beside_a_bystander
from tests.support.broker.nodes import framed
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Machine, create, new_topic
from tests.support.protocol.wire_vectors import pairs

# These read and change nothing, and so may be asked again and again.
ASKED = {3, 18, 32, 60, 75}
WHOLE = Conditions(split_rate=0.0, gather_rate=0.0)


def recorded_requests(count: int, seed: int) -> list[bytes]:
    """Some of the recorded requests, each with its own number instead of the recorded one."""
    frames = [base64.b64decode(pair["request"]) for pair in pairs() if pair["key"] in ASKED]
    chosen = random.Random(seed).choices([frame for frame in frames if len(frame) < 300], k=count)
    numbered = [
        frame[:4] + number.to_bytes(4, "big") + frame[8:] for number, frame in enumerate(chosen)
    ]
    return [len(frame).to_bytes(4, "big") + frame for frame in numbered]


async def replies(stranger: Stranger, count: int) -> list[bytes]:
    async with asyncio.timeout(600):
        while len(stranger.frames) < count:
            await asyncio.sleep(0.01)
    return stranger.frames


async def one_by_one(street: Street, requests: list[bytes]) -> list[bytes]:
    """The replies as a careful client gets them."""
    stranger = await street.stranger("careful")
    for number, request in enumerate(requests):
        stranger.send(request)
        await replies(stranger, number + 1)
    return stranger.frames


@pytest.mark.parametrize("seed", range(3))
def test_one_byte_at_a_time_and_all_in_one_write_give_the_same_replies(seed: int) -> None:
    assert ASKED <= SERVED
    requests = recorded_requests(50, seed)
    machine = Machine(seed)
    machine.network.conditions = dataclasses.replace(WHOLE, window_bytes=1 << 20)

    async def story(street: Street) -> None:
        expected = await one_by_one(street, requests)
        assert [decode_correlation_id(reply) for reply in expected] == list(range(50))
        together = await street.stranger("together")
        together.send(b"".join(requests))
        assert await replies(together, 50) == expected
        slow = await street.stranger("slow")
        for byte in b"".join(requests):
            slow.send(bytes([byte]))
            await asyncio.sleep(0.003)
        assert await replies(slow, 50) == expected

    # A topic that a request makes would be there for the next.
    beside_a_bystander(story, machine, auto_create_topics_enable="false")


def test_produces_and_fetches_in_one_write_are_done_in_their_order() -> None:
    async def story(street: Street) -> None:
        client = await street.machine.client()
        await create(client, new_topic("events"))
        requests = []
        for number in range(25):
            value = str(number).encode()
            requests.append(framed(produce("events", batch(value)), 9, 2 * number))
            requests.append(framed(fetch("events", wanted(offset=number)), 12, 2 * number + 1))
        stranger = await street.stranger()
        stranger.send(b"".join(requests))
        received = await replies(stranger, 50)
        assert [decode_correlation_id(reply) for reply in received] == list(range(50))
        fetched = await client.ask(fetch("events", wanted()), 12)
        assert values(only(fetched).records) == [str(number).encode() for number in range(25)]
        client.close()

    beside_a_bystander(story)


def test_polls_that_wait_cost_no_turn_of_the_loop_and_are_woken_at_once() -> None:
    assert turns_of_ten_seconds(polls=200) <= turns_of_ten_seconds(polls=0) * 1.1


def turns_of_ten_seconds(polls: int) -> int:
    """How often the loop turns while so many polls wait; then they are woken."""
    turns = 0

    async def story(street: Street) -> None:
        client = await street.machine.client()
        await create(client, new_topic("quiet"))
        strangers = [await street.stranger(f"poll-{number}") for number in range(polls)]
        for stranger in strangers:
            stranger.send(framed(fetch("quiet", wanted(), wait_ms=30_000), 12))
        await asyncio.sleep(1)
        with counted_turns() as counts:
            await asyncio.sleep(10)
        nonlocal turns
        turns = len(counts)
        began = asyncio.get_running_loop().time()
        await client.ask(produce("quiet", batch(b"at last")), 9)
        for stranger in strangers:
            await replies(stranger, 1)
        assert asyncio.get_running_loop().time() - began < 0.1
        client.close()

    beside_a_bystander(story)
    return turns


@contextmanager
def counted_turns() -> Iterator[list[float]]:
    """When the running loop turned."""
    loop: Any = asyncio.get_running_loop()
    turn, counts = loop._run_once, []

    def run_once() -> None:
        counts.append(loop.time())
        turn()

    loop._run_once = run_once
    yield counts
    loop._run_once = turn
