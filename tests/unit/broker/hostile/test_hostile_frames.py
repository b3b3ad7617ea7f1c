"""Bytes that are no request end their connection, and do not affect other clients."""

import base64
import random
from asyncio import sleep
from typing import Any

import pytest

from ottla.broker.net.receive_buffer import AHEAD_BYTES_MIN
from ottla.broker.requests.served_apis import SERVED
from ottla.protocol.batch import Record, build
from ottla.protocol.exchange import decode_correlation_id, decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from ottla.protocol.primitives import encode_unsigned_varint
from tests.support.broker.hostile_clients import HostileScene, beside_a_bystander
from tests.support.broker.nodes import framed
from tests.support.broker.simulated_broker import Client, new_topic, with_broker
from tests.support.protocol.wire_vectors import pairs

FRAME_BYTES_MAX = 100 << 20
INVALID_TOPIC = 17
UNKNOWN_KEY, UNKNOWN_VERSION = 999, 99
UNSERVED_KEY = min(APIS.keys() - SERVED)


def sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def header(key: int, version: int) -> bytes:
    """The header of a request, with a client id that is null."""
    return b"".join(number.to_bytes(2, "big") for number in (key, version, 0, 1, 2**16 - 1))


def many_partitions(count: int) -> bytes:
    """A produce to `count` partitions of one topic, without records."""
    before = b"\xff\xff" + b"\0\1" + (1000).to_bytes(4, "big") + b"\0\0\0\1" + b"\0\1t"
    partition = bytes(4) + b"\xff" * 4
    return header(0, 3) + before + count.to_bytes(4, "big") + partition * count


def many_batches(count: int) -> bytes:
    """The same with an ordinary batch each: only their number is unusual."""
    batch = build([Record(offset=0, timestamp=1, key=None, value=b"")])
    before = b"\xff\xff" + b"\0\1" + (1000).to_bytes(4, "big") + b"\0\0\0\1" + b"\0\1t"
    partition = bytes(4) + len(batch).to_bytes(4, "big") + batch
    return header(0, 3) + before + count.to_bytes(4, "big") + partition * count


def many_tags(count: int) -> bytes:
    """Unknown tagged fields of zero bytes."""
    return encode_unsigned_varint(count) + b"".join(
        encode_unsigned_varint(tag) + b"\0" for tag in range(count)
    )


# One more than the limit of elements per request.
TOO_MANY = 200_001
LARGE = {
    "partitions of a produce": many_partitions(TOO_MANY),
    "batches of a produce": many_batches(TOO_MANY),
    "tagged fields of a produce": (
        header(0, 9)
        + b"\0"
        + b"\0"
        + b"\0\1"
        + bytes(4)
        + encode_unsigned_varint(1)
        + many_tags(TOO_MANY)
    ),
    "tagged fields of a header": header(0, 9) + many_tags(TOO_MANY) + bytes(100),
    "names of one byte each": (
        header(42, 2) + b"\0" + encode_unsigned_varint(TOO_MANY + 1) + b"\1" * TOO_MANY + b"\0"
    ),
    "broker ids": header(19, 2)
    + b"\0\0\0\1"
    + b"\0\1t"
    + bytes(6)
    + b"\0\0\0\1"
    + bytes(4)
    + TOO_MANY.to_bytes(4, "big")
    + bytes(4 * TOO_MANY)
    + bytes(9),
}

HOSTILE = {
    "an unknown API": sized(header(UNKNOWN_KEY, 0) + bytes(20)),
    "an API that is not served": sized(header(UNSERVED_KEY, 0) + bytes(40)),
    "an unknown version": sized(header(3, UNKNOWN_VERSION) + bytes(20)),
    "a negative version": sized(header(3, 2**16 - 1) + bytes(20)),
    "an empty frame": sized(b""),
    "half a header": sized(b"\0\3\0"),
    "a body that ends too soon": sized(header(3, 12) + b"\0"),
    "an array of two thousand millions": sized(header(3, 1) + (2**31 - 1).to_bytes(4, "big")),
    "a string longer than its frame": sized(header(3, 1) + b"\0\0\0\1" + b"\x7f\xff"),
    "a frame of 2 GiB": (2**31 - 1).to_bytes(4, "big") + bytes(1000),
    "a frame of one byte too much": (FRAME_BYTES_MAX + 1).to_bytes(4, "big"),
    "a negative size": b"\xff\xff\xff\xff",
    "the most negative size": b"\x80\0\0\0",
    "another protocol": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + bytes(190),
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
def test_bytes_that_are_no_request_end_the_connection_and_are_counted_and_logged(
    sent: bytes,
) -> None:
    async def story(scene: HostileScene) -> None:
        hostile = await scene.hostile()
        hostile.send(sent)
        await sleep(1)
        assert hostile.was_closed
        assert hostile.frames == []
        assert scene.ended == {"bad request": 1}
        (line,) = scene.told("connection ended")
        assert line["peer"] == "stranger"
        assert line["error"], "it says what was wrong"
        assert scene.connections == 0

    beside_a_bystander(story)


@pytest.mark.parametrize("frame", LARGE.values(), ids=LARGE)
def test_a_request_of_too_many_elements_ends_its_connection(frame: bytes) -> None:
    async def story(scene: HostileScene) -> None:
        hostile = await scene.hostile()
        hostile.send(sized(frame))
        await sleep(5)
        assert hostile.was_closed
        assert hostile.frames == []
        (line,) = scene.told("connection ended")
        assert "elements are more than the message may still have" in str(line["error"])

    beside_a_bystander(story)


def test_a_produce_to_as_many_partitions_as_are_allowed_is_answered() -> None:
    async def story(scene: HostileScene) -> None:
        hostile = await scene.hostile()
        for frame in (many_partitions(9_999), many_batches(10_000)):
            hostile.send(sized(frame))
            await sleep(5)
            answer = decode_response(hostile.frames.pop(), APIS[0], 3)
            (topic,) = answer.responses
            assert len(topic.partition_responses) >= 9_999
        assert not hostile.was_closed

    # The topic is one as well, where it is not read natively.
    beside_a_bystander(story, ottla_request_elements_max="10000")


@pytest.mark.parametrize("frame", [many_partitions(10_000), many_batches(10_001)])
def test_a_produce_to_more_partitions_than_are_allowed_ends_the_connection(frame: bytes) -> None:
    async def story(scene: HostileScene) -> None:
        hostile = await scene.hostile()
        hostile.send(sized(frame))
        await sleep(5)
        assert hostile.was_closed
        assert hostile.frames == []

    beside_a_bystander(story, ottla_request_elements_max="10000")


def test_only_api_versions_answers_an_unknown_version() -> None:
    async def story(scene: HostileScene) -> None:
        hostile = await scene.hostile()
        hostile.send(sized(header(18, UNKNOWN_VERSION) + bytes(20)))
        await sleep(1)
        (answer,) = hostile.frames
        response = decode_response(answer, APIS[18], 0)
        assert response.error_code == 35
        assert not hostile.was_closed
        hostile.send(framed(ApiVersionsRequest(), 0, correlation_id=5))
        await sleep(1)
        assert decode_correlation_id(hostile.frames[1]) == 5, "and the connection goes on"

    beside_a_bystander(story)


def test_good_requests_before_a_bad_one_are_answered_first() -> None:
    async def story(scene: HostileScene) -> None:
        hostile = await scene.hostile()
        hostile.send(framed(ApiVersionsRequest(), 0, correlation_id=5))
        await sleep(1)
        hostile.send(framed(ApiVersionsRequest(), 0, correlation_id=6) + b"\xff\xff\xff\xff")
        await sleep(1)
        assert hostile.was_closed
        assert decode_correlation_id(hostile.frames[0]) == 5
        assert scene.ended == {"bad request": 1}

    beside_a_bystander(story)


def test_an_incomplete_frame_costs_its_received_bytes_until_the_idle_timeout() -> None:
    async def story(scene: HostileScene) -> None:
        hostiles = [await scene.hostile() for _ in range(50)]
        for hostile in hostiles:
            hostile.send(FRAME_BYTES_MAX.to_bytes(4, "big") + b"\0\0\0")
        await sleep(2)
        held_bytes = scene.node.metrics.broker.queued_request_bytes
        assert 0 < held_bytes <= len(hostiles) * AHEAD_BYTES_MIN
        assert scene.connections == len(hostiles)
        await sleep(25)
        assert scene.connections == 0
        assert scene.ended == {"idle": len(hostiles)}
        assert scene.node.metrics.broker.queued_request_bytes == 0

    beside_a_bystander(story, connections_max_idle_ms="20000")


def test_a_repeated_error_is_logged_with_one_repeats_of() -> None:
    """The events have the same `repeats_of`, so the node's logger writes ten per minute."""

    async def story(scene: HostileScene) -> None:
        for _ in range(100):
            hostile = await scene.hostile()
            hostile.send(HOSTILE["a negative size"])
            await sleep(0.02)
        assert scene.ended == {"bad request": 100}
        assert set(scene.machine.notes.repeats_of("connection ended")) == {"bad request"}

    beside_a_bystander(story)


@pytest.mark.parametrize("seed", range(3))
def test_requests_with_changed_bytes_do_not_harm_the_broker(seed: int) -> None:
    """Recorded requests of every API, each with a few bytes changed."""
    chance = random.Random(seed)
    requests = [base64.b64decode(pair["request"]) for pair in pairs() if pair["key"] in SERVED]

    async def story(scene: HostileScene) -> None:
        for _ in range(100):
            hostiles = [await scene.hostile() for _ in range(5)]
            for hostile in hostiles:
                hostile.send(b"".join(spoiled(chance.choice(requests), chance) for _ in range(2)))
            await sleep(0.02)
            assert not scene.node.fault.done(), scene.node.fault
            for hostile in hostiles:
                hostile.transport.abort()
        answered = sum(scene.node.metrics.request(APIS[key].name).seconds.count for key in SERVED)
        assert answered - 2 * scene.bystander.rounds > 100
        assert scene.ended["bad request"] > 100

    beside_a_bystander(story, delete_topic_enable="false", num_partitions="1")


def spoiled(request: bytes, chance: random.Random) -> bytes:
    frame = bytearray(request)
    for _ in range(chance.choice((1, 1, 2, 5))):
        # Most bytes of a header spoil it all: spare it mostly.
        first = 0 if chance.random() < 0.1 else min(20, len(frame) - 1)
        frame[chance.randrange(first, len(frame))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
    if chance.random() < 0.05:
        del frame[chance.randrange(len(frame)) :]
    return sized(bytes(frame))


@pytest.mark.parametrize("name", ["x" * 250, "x" * 30_000, "..", ".", "", "a/b", "a\0b", "ä"])
def test_an_invalid_topic_name_is_refused(name: str) -> None:
    async def story(client: Client) -> None:
        created = await client.ask(CreateTopicsRequest(topics=(new_topic(name),)))
        assert [(each.name, each.error_code) for each in created.topics] == [(name, INVALID_TOPIC)]
        assert len(created.topics[0].error_message) < 500
        asked: Any = MetadataRequest(topics=(RequestedTopic(name=name),))
        described = await client.ask(asked, 8)
        assert [each.error_code for each in described.topics] == [INVALID_TOPIC]

    with_broker(story)
