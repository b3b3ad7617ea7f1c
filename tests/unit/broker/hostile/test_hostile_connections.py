"""Clients that say nothing, say it slowly, never listen, or come in crowds: to their own harm."""

from asyncio import create_task, sleep
from typing import cast

import pytest

from ottla.broker.net.connection import UNSENT_BYTES_MAX
from ottla.broker.net.connections import STUCK_MS_MAX
from ottla.protocol.exchange import decode_correlation_id
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.broker.hostile_clients import Street, beside_a_bystander
from tests.support.broker.nodes import framed
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, wanted
from tests.support.broker.simulated_broker import Client, create, new_topic

BIG = bytes(900_000)
KNOCK = framed(ApiVersionsRequest(), 0)
CROWDED = {"queued_max_request_bytes": "1000000", "socket_request_max_bytes": "1000000"}
FETCHES = 20


async def fill(client: Client, topic: str, batches: int) -> None:
    await create(client, new_topic(topic))
    for _ in range(batches):
        assert only(await client.ask(produce(topic, batch(BIG)), 9)).error_code == 0


def test_many_who_say_nothing_cost_no_buffer_and_go_when_their_time_is_over() -> None:
    async def story(street: Street) -> None:
        silent = [await street.stranger(f"crowd-{number % 10}") for number in range(300)]
        await sleep(5)
        assert street.connections == 300
        assert street.node.metrics.broker.queued_request_bytes == 0
        await sleep(60)
        assert all(stranger.was_closed for stranger in silent)
        assert street.connections == 0
        assert street.ended == {"idle": 300}
        assert set(street.machine.notes.repeats_of("connection ended")) == {"idle"}

    beside_a_bystander(story, connections_max_idle_ms="60000")


def test_who_talks_now_and_then_is_not_idle() -> None:
    async def story(street: Street) -> None:
        stranger = await street.stranger()
        for _ in range(5):
            stranger.send(KNOCK)
            await sleep(8)
        assert len(stranger.frames) == 5
        assert not stranger.was_closed
        await sleep(12)
        assert stranger.was_closed

    beside_a_bystander(story, connections_max_idle_ms="10000")


def test_who_never_reads_its_answers_fills_its_own_buffers_and_goes() -> None:
    """Fetches one behind the other, of a log that is larger than any buffer."""

    async def story(street: Street) -> None:
        client = await street.machine.client()
        await fill(client, "large", 4)
        client.close()
        fetches = street.node.metrics.topic("large")
        deaf = [await street.stranger(f"deaf-{number}") for number in range(5)]
        asked = [
            framed(fetch("large", wanted(bytes_max=50 << 20)), 12, number)
            for number in range(FETCHES)
        ]
        for stranger in deaf:
            stranger.transport.pause_reading()
            stranger.send(b"".join(asked))
        await sleep(20)
        assert fetches.fetch_requests <= 2 * len(deaf), "not read from while it does not listen"
        assert not any(stranger.was_closed for stranger in deaf)
        deaf[0].transport.resume_reading()
        await sleep(30)
        assert [decode_correlation_id(frame) for frame in deaf[0].frames] == list(range(FETCHES))
        await sleep(60)
        assert street.ended["idle"] == len(deaf), "the others, and then the one who was silent"

    beside_a_bystander(story, connections_max_idle_ms="60000")


def test_small_answers_that_nobody_takes_are_as_bounded_as_large_ones() -> None:
    async def story(street: Street) -> None:
        deaf = await street.stranger()
        deaf.transport.pause_reading()
        count = 20_000
        deaf.send(KNOCK * count)
        await sleep(60)
        answered = street.node.metrics.request("ApiVersions").seconds.count
        assert answered < count
        deaf.transport.resume_reading()
        await sleep(60)
        assert len(deaf.frames) == count
        reply_bytes = len(deaf.frames[0]) + 4
        # What the queue holds, as much that the transport was given, and what is on its way.
        assert answered * reply_bytes < 2 * UNSENT_BYTES_MAX + (2 << 20)

    beside_a_bystander(story)


def test_a_request_that_comes_byte_by_byte_is_answered_as_any_other() -> None:
    async def story(street: Street) -> None:
        slow = await street.stranger()
        for byte in KNOCK * 2:
            slow.send(bytes([byte]))
            await sleep(3)
        assert len(slow.frames) == 2

    beside_a_bystander(story, connections_max_idle_ms="10000")


@pytest.mark.parametrize("pause_s", [0.5, 3.0])
def test_those_who_drip_do_not_keep_the_memory_that_others_wait_for(pause_s: float) -> None:
    """Large requests that never become whole take all the room: a large honest one gets some."""

    async def story(street: Street) -> None:
        drippers = [await street.stranger(f"dripper-{number}") for number in range(10)]
        for dripper in drippers:
            dripper.send(len(BIG).to_bytes(4, "big") + bytes(300_000))

        async def drip() -> None:
            for _ in range(int(3 * STUCK_MS_MAX / 1000 / pause_s)):
                for dripper in drippers:
                    dripper.send(b"\0")
                await sleep(pause_s)

        await sleep(2)
        honest = cast("Client", await street.machine.client())
        await create(honest, new_topic("large"))
        producing = create_task(honest.ask(produce("large", batch(BIG)), 9))
        await drip()
        assert producing.done()
        assert only(producing.result()).error_code == 0
        assert street.ended["stuck"] > 0
        assert street.told("connection ended")[0]["reason"] == "stuck"
        honest.close()

    beside_a_bystander(story, **CROWDED)


def test_one_address_may_have_so_many_connections_and_the_next_may_come() -> None:
    async def story(street: Street) -> None:
        crowd = [await street.stranger("crowd") for _ in range(8)]
        other = await street.stranger("other")
        await sleep(1)
        assert [stranger.was_closed for stranger in crowd] == [False] * 3 + [True] * 5
        assert not other.was_closed
        assert street.refused == {"max.connections.per.ip": 5}
        lines = street.told("connection refused")
        assert [line["peer"] for line in lines] == ["crowd"] * 5
        crowd[0].transport.close()
        await sleep(1)
        late = await street.stranger("crowd")
        late.send(KNOCK)
        await sleep(1)
        assert len(late.frames) == 1

    beside_a_bystander(story, max_connections_per_ip="3")


def test_beyond_max_connections_nobody_is_taken_and_those_who_are_in_stay() -> None:
    async def story(street: Street) -> None:
        crowd = [await street.stranger(f"host-{number}") for number in range(20)]
        await sleep(1)
        assert sum(stranger.was_closed for stranger in crowd) == 11
        assert street.refused == {"max.connections": 11}
        assert set(street.machine.notes.repeats_of("connection refused")) == {"max.connections"}
        crowd[0].send(KNOCK)
        await sleep(1)
        assert len(crowd[0].frames) == 1

    beside_a_bystander(story, max_connections="10")


def test_a_broker_that_stops_ends_all_connections_cleanly() -> None:
    async def story(street: Street) -> None:
        waiting = await street.stranger()
        waiting.send(framed(fetch("bystander", wanted(offset=10**6), wait_ms=60_000), 12))
        half = await street.stranger()
        half.send(KNOCK[:5])
        await sleep(1)
        assert street.connections == 2

    beside_a_bystander(story)
