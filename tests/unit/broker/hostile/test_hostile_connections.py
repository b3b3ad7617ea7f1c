"""Clients that are silent, send slowly, never read, or are many: they harm only themselves."""

from asyncio import create_task, sleep
from typing import cast

import pytest

from ottla.broker.net.connection import UNSENT_BYTES_MAX
from ottla.broker.net.connections import STUCK_MS_MAX
from ottla.protocol.exchange import decode_correlation_id
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.broker.hostile_clients import HostileScene, beside_a_bystander
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


def test_silent_clients_cost_no_buffer_and_are_ended_after_the_idle_timeout() -> None:
    async def story(scene: HostileScene) -> None:
        silent = [await scene.hostile(f"crowd-{number % 10}") for number in range(300)]
        await sleep(5)
        assert scene.connections == 300
        assert scene.node.metrics.broker.queued_request_bytes == 0
        await sleep(60)
        assert all(hostile.was_closed for hostile in silent)
        assert scene.connections == 0
        assert scene.ended == {"idle": 300}
        assert set(scene.machine.notes.repeats_of("connection ended")) == {"idle"}

    beside_a_bystander(story, connections_max_idle_ms="60000")


def test_a_client_that_sends_now_and_then_is_not_idle() -> None:
    async def story(scene: HostileScene) -> None:
        hostile = await scene.hostile()
        for _ in range(5):
            hostile.send(KNOCK)
            await sleep(8)
        assert len(hostile.frames) == 5
        assert not hostile.was_closed
        await sleep(12)
        assert hostile.was_closed

    beside_a_bystander(story, connections_max_idle_ms="10000")


def test_a_client_that_never_reads_fills_its_own_buffers_and_is_ended() -> None:
    """Pipelined fetches of a log that is larger than any buffer."""

    async def story(scene: HostileScene) -> None:
        client = await scene.machine.client()
        await fill(client, "large", 4)
        client.close()
        fetches = scene.node.metrics.topic("large")
        deaf = [await scene.hostile(f"deaf-{number}") for number in range(5)]
        asked = [
            framed(fetch("large", wanted(bytes_max=50 << 20)), 12, number)
            for number in range(FETCHES)
        ]
        for hostile in deaf:
            hostile.transport.pause_reading()
            hostile.send(b"".join(asked))
        await sleep(20)
        assert fetches.fetch_requests <= 2 * len(deaf), "not read from while it does not listen"
        assert not any(hostile.was_closed for hostile in deaf)
        deaf[0].transport.resume_reading()
        await sleep(30)
        assert [decode_correlation_id(frame) for frame in deaf[0].frames] == list(range(FETCHES))
        await sleep(60)
        assert scene.ended["idle"] == len(deaf), "the others, and then the one who was silent"

    beside_a_bystander(story, connections_max_idle_ms="60000")


def test_small_unread_responses_are_bounded() -> None:
    async def story(scene: HostileScene) -> None:
        deaf = await scene.hostile()
        deaf.transport.pause_reading()
        count = 20_000
        deaf.send(KNOCK * count)
        await sleep(60)
        answered = scene.node.metrics.request("ApiVersions").seconds.count
        assert answered < count
        deaf.transport.resume_reading()
        await sleep(60)
        assert len(deaf.frames) == count
        reply_bytes = len(deaf.frames[0]) + 4
        # The queue, as much in the transport's buffer, and the bytes on the network.
        assert answered * reply_bytes < 2 * UNSENT_BYTES_MAX + (2 << 20)

    beside_a_bystander(story)


def test_a_request_that_arrives_byte_by_byte_is_answered() -> None:
    async def story(scene: HostileScene) -> None:
        slow = await scene.hostile()
        for byte in KNOCK * 2:
            slow.send(bytes([byte]))
            await sleep(3)
        assert len(slow.frames) == 2

    beside_a_bystander(story, connections_max_idle_ms="10000")


@pytest.mark.parametrize("pause_s", [0.5, 3.0])
def test_slow_requests_do_not_keep_the_memory_that_others_wait_for(pause_s: float) -> None:
    """Incomplete large requests use all the memory; another large request still gets some."""

    async def story(scene: HostileScene) -> None:
        drippers = [await scene.hostile(f"dripper-{number}") for number in range(10)]
        for dripper in drippers:
            dripper.send(len(BIG).to_bytes(4, "big") + bytes(300_000))

        async def drip() -> None:
            for _ in range(int(3 * STUCK_MS_MAX / 1000 / pause_s)):
                for dripper in drippers:
                    dripper.send(b"\0")
                await sleep(pause_s)

        await sleep(2)
        honest = cast("Client", await scene.machine.client())
        await create(honest, new_topic("large"))
        producing = create_task(honest.ask(produce("large", batch(BIG)), 9))
        await drip()
        assert producing.done()
        assert only(producing.result()).error_code == 0
        assert scene.ended["stuck"] > 0
        assert scene.told("connection ended")[0]["reason"] == "stuck"
        honest.close()

    beside_a_bystander(story, **CROWDED)


def test_connections_per_address_are_limited() -> None:
    async def story(scene: HostileScene) -> None:
        crowd = [await scene.hostile("crowd") for _ in range(8)]
        other = await scene.hostile("other")
        await sleep(1)
        assert [hostile.was_closed for hostile in crowd] == [False] * 3 + [True] * 5
        assert not other.was_closed
        assert scene.refused == {"max.connections.per.ip": 5}
        lines = scene.told("connection refused")
        assert [line["peer"] for line in lines] == ["crowd"] * 5
        crowd[0].transport.close()
        await sleep(1)
        late = await scene.hostile("crowd")
        late.send(KNOCK)
        await sleep(1)
        assert len(late.frames) == 1

    beside_a_bystander(story, max_connections_per_ip="3")


def test_beyond_max_connections_new_ones_are_refused_and_existing_ones_stay() -> None:
    async def story(scene: HostileScene) -> None:
        crowd = [await scene.hostile(f"host-{number}") for number in range(20)]
        await sleep(1)
        assert sum(hostile.was_closed for hostile in crowd) == 11
        assert scene.refused == {"max.connections": 11}
        assert set(scene.machine.notes.repeats_of("connection refused")) == {"max.connections"}
        crowd[0].send(KNOCK)
        await sleep(1)
        assert len(crowd[0].frames) == 1

    beside_a_bystander(story, max_connections="10")


def test_a_broker_that_stops_ends_all_connections_cleanly() -> None:
    async def story(scene: HostileScene) -> None:
        waiting = await scene.hostile()
        waiting.send(framed(fetch("bystander", wanted(offset=10**6), wait_ms=60_000), 12))
        half = await scene.hostile()
        half.send(KNOCK[:5])
        await sleep(1)
        assert scene.connections == 2

    beside_a_bystander(story)
