"""Recorded traffic, split in unusual ways, gets the same responses in the same order."""

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
from tests.support.broker.hostile_clients import HostileClient, HostileScene, beside_a_bystander
from tests.support.broker.nodes import framed
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Machine, create, new_topic
from tests.support.protocol.wire_vectors import pairs

# These change nothing, so they may be repeated.
ASKED = {3, 18, 32, 60, 75}
WHOLE = Conditions(split_rate=0.0, gather_rate=0.0)


def recorded_requests(count: int, seed: int) -> list[bytes]:
    """Some of the recorded requests, with new correlation ids."""
    frames = [base64.b64decode(pair["request"]) for pair in pairs() if pair["key"] in ASKED]
    chosen = random.Random(seed).choices([frame for frame in frames if len(frame) < 300], k=count)
    numbered = [
        frame[:4] + number.to_bytes(4, "big") + frame[8:] for number, frame in enumerate(chosen)
    ]
    return [len(frame).to_bytes(4, "big") + frame for frame in numbered]


async def replies(hostile: HostileClient, count: int) -> list[bytes]:
    async with asyncio.timeout(600):
        while len(hostile.frames) < count:
            await asyncio.sleep(0.01)
    return hostile.frames


async def one_by_one(scene: HostileScene, requests: list[bytes]) -> list[bytes]:
    """The responses to requests that are sent one at a time."""
    hostile = await scene.hostile("careful")
    for number, request in enumerate(requests):
        hostile.send(request)
        await replies(hostile, number + 1)
    return hostile.frames


@pytest.mark.parametrize("seed", range(3))
def test_one_byte_at_a_time_and_all_in_one_write_give_the_same_replies(seed: int) -> None:
    assert ASKED <= SERVED
    requests = recorded_requests(50, seed)
    machine = Machine(seed)
    machine.network.conditions = dataclasses.replace(WHOLE, window_bytes=1 << 20)

    async def story(scene: HostileScene) -> None:
        expected = await one_by_one(scene, requests)
        assert [decode_correlation_id(reply) for reply in expected] == list(range(50))
        together = await scene.hostile("together")
        together.send(b"".join(requests))
        assert await replies(together, 50) == expected
        slow = await scene.hostile("slow")
        for byte in b"".join(requests):
            slow.send(bytes([byte]))
            await asyncio.sleep(0.003)
        assert await replies(slow, 50) == expected

    # Without auto creation: a topic that one request creates would change the next response.
    beside_a_bystander(story, machine, auto_create_topics_enable="false")


def test_produces_and_fetches_in_one_write_are_done_in_their_order() -> None:
    async def story(scene: HostileScene) -> None:
        client = await scene.machine.client()
        await create(client, new_topic("events"))
        requests = []
        for number in range(25):
            value = str(number).encode()
            requests.append(framed(produce("events", batch(value)), 9, 2 * number))
            requests.append(framed(fetch("events", wanted(offset=number)), 12, 2 * number + 1))
        hostile = await scene.hostile()
        hostile.send(b"".join(requests))
        received = await replies(hostile, 50)
        assert [decode_correlation_id(reply) for reply in received] == list(range(50))
        fetched = await client.ask(fetch("events", wanted()), 12)
        assert values(only(fetched).records) == [str(number).encode() for number in range(25)]
        client.close()

    beside_a_bystander(story)


def test_parked_fetches_cost_no_turn_of_the_loop_and_are_woken_at_once() -> None:
    assert turns_of_ten_seconds(polls=200) <= turns_of_ten_seconds(polls=0) * 1.1


def turns_of_ten_seconds(polls: int) -> int:
    """The turns of the event loop while fetches are parked; then they are woken."""
    turns = 0

    async def story(scene: HostileScene) -> None:
        client = await scene.machine.client()
        await create(client, new_topic("quiet"))
        hostiles = [await scene.hostile(f"poll-{number}") for number in range(polls)]
        for hostile in hostiles:
            hostile.send(framed(fetch("quiet", wanted(), wait_ms=30_000), 12))
        await asyncio.sleep(1)
        with counted_turns() as counts:
            await asyncio.sleep(10)
        nonlocal turns
        turns = len(counts)
        began = asyncio.get_running_loop().time()
        await client.ask(produce("quiet", batch(b"at last")), 9)
        for hostile in hostiles:
            await replies(hostile, 1)
        assert asyncio.get_running_loop().time() - began < 0.1
        client.close()

    beside_a_bystander(story)
    return turns


@contextmanager
def counted_turns() -> Iterator[list[float]]:
    """The times at which the event loop turned."""
    loop: Any = asyncio.get_running_loop()
    turn, counts = loop._run_once, []

    def run_once() -> None:
        counts.append(loop.time())
        turn()

    loop._run_once = run_once
    yield counts
    loop._run_once = turn
