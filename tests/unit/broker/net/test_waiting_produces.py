"""Several produce requests of one connection that wait for replication at once."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from ottla.broker.net.connection import CROWDED_BYTES_MAX, Connection
from ottla.broker.net.connections import Connections
from ottla.broker.net.response_queue import WAITING_PRODUCES_BYTES_MAX, WAITING_PRODUCES_MAX
from ottla.metrics.node import NodeMetrics
from ottla.settings.listeners import SecurityProtocol
from tests.sim.seams.clock import SimClock
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.net import SimNetwork
from tests.sim.seams.threads import SimThreads
from tests.sim.seams.wire import Conditions
from tests.support.broker.produce_frames import PRODUCE, ProduceFrames, request
from tests.support.broker.simulated_broker import Notes
from tests.unit.broker.net.test_connection import LIMITS, Peer

# Only frames that arrive in one piece are gathered.
IN_ONE_PIECE = Conditions(split_rate=0.0)


class Place:
    """One connection of a broker, and its client."""

    def __init__(self, clock: SimClock, frames: ProduceFrames) -> None:
        self.frames = frames
        self.network = SimNetwork(0, IN_ONE_PIECE)
        self.metrics = NodeMetrics()
        self.connections = Connections(
            clock=clock,
            threads=SimThreads(SimEntropy(0)),
            limits=LIMITS,
            metrics=self.metrics,
            logger=Notes(),
        )
        self.peer = Peer()

    async def open(self) -> None:
        listener = await self.network.host("broker").bind("0.0.0.0", 9092)
        plaintext = SecurityProtocol.PLAINTEXT
        await self.connections.accept(listener, self.frames, "PLAINTEXT", plaintext)
        host = self.network.host("client")
        self.peer = cast("Peer", await host.connect(Peer, "broker", 9092))
        await asyncio.sleep(0.05)

    @property
    def connection(self) -> Connection:
        (connection,) = self.connections._open
        return connection

    async def send(self, *frames: bytes) -> None:
        """In one piece; waits until they are handled or queued."""
        self.peer.send(*frames)
        await asyncio.sleep(1)

    async def commit(self, *frames: bytes) -> None:
        for frame in frames:
            self.frames.commit(frame)
        await asyncio.sleep(1)


def simulate(
    story: Callable[[Place], Coroutine[Any, Any, None]], frames: ProduceFrames | None = None
) -> None:
    clock = SimClock()

    async def tell() -> None:
        place = Place(clock, frames or ProduceFrames())
        await place.open()
        await story(place)

    run(tell(), clock=clock)


A, B, C = (request("a", number) for number in range(1, 4))


def test_the_next_produce_is_handled_while_earlier_ones_wait_for_replication() -> None:
    async def story(place: Place) -> None:
        await place.send(A, B)
        await place.send(C)
        assert place.frames.handled == [A, B, C]
        assert place.peer.frames == []
        await place.commit(A)
        assert place.peer.frames == [A]
        await place.commit(C)
        assert place.peer.frames == [A], "the second is answered before the third"
        await place.commit(B)
        assert place.peer.frames == [A, B, C]

    simulate(story)


def test_responses_that_come_together_are_sent_together() -> None:
    async def story(place: Place) -> None:
        await place.send(A, B, C)
        writes: list[bytes] = []
        transport: Any = place.connection._transport
        write, writelines = transport.write, transport.writelines
        transport.write = lambda data: (writes.append(bytes(data)), write(data))
        transport.writelines = lambda parts: (
            writes.append(b"".join(map(bytes, parts))),
            writelines(parts),
        )
        await place.commit(B, C, A)
        assert place.peer.frames == [A, B, C]
        assert len(writes) == 1

    simulate(story)


@pytest.mark.parametrize("letter", ["e", "f"])
def test_any_other_request_waits_for_all_earlier_responses(letter: str) -> None:
    other = request(letter, 9)

    async def story(place: Place) -> None:
        await place.send(A, B, other, C)
        assert place.frames.handled == [A, B]
        await place.commit(A)
        assert place.frames.handled == [A, B]
        await place.commit(B)
        if letter == "f":
            assert place.frames.handled == [A, B, other], "nothing overtakes it"
            await place.commit(other)
        assert place.frames.handled == [A, B, other, C]
        await place.commit(C)
        assert place.peer.frames == [A, B, other, C]

    simulate(story)


@pytest.mark.parametrize("letter", ["w", "z"])
def test_a_produce_that_is_not_appended_yet_lets_none_overtake_it(letter: str) -> None:
    """Otherwise the batches of an idempotent producer would be out of order."""
    unappended = request(letter, 9)

    async def story(place: Place) -> None:
        await place.send(A, unappended, B)
        assert place.frames.handled == [A, unappended]
        await place.commit(unappended)
        assert place.frames.handled == [A, unappended], "its response waits for the first"
        await place.commit(A)
        assert place.frames.handled == [A, unappended, B]
        await place.commit(B)
        expected = [A, unappended, B] if letter == "w" else [A, B]
        assert place.peer.frames == expected

    simulate(story)


def test_responses_that_are_there_at_once_wait_for_their_turn() -> None:
    first, second = request("i", 8), request("i", 9)

    async def story(place: Place) -> None:
        await place.send(A, first, B, second, C)
        assert place.frames.handled == [A, first, B, second, C]
        await place.commit(B, C)
        assert place.peer.frames == []
        await place.commit(A)
        assert place.peer.frames == [A, first, B, second, C]

    simulate(story)


def test_requests_without_a_response_are_handled_among_waiting_ones() -> None:
    silent = [request("n", number) for number in range(5, 9)]

    async def story(place: Place) -> None:
        await place.send(A, *silent, B)
        place.frames.settle_gathered()
        assert place.frames.handled == [A, *silent, B]
        await place.commit(B, A)
        assert place.peer.frames == [A, B]

    simulate(story)


def test_gathered_requests_wait_among_others() -> None:
    first, second = request("g", 8), request("g", 9)

    async def story(place: Place) -> None:
        await place.send(A)
        await place.send(first)
        assert [frame for _, frame in place.frames.gathered] == [first]
        await place.send(second)
        assert place.frames.handled == [A, first], "at most one of a connection is gathered"
        place.frames.settle_gathered()
        await place.send(B)
        assert place.frames.handled == [A, first, second, B]
        await place.commit(B, second, first)
        assert place.peer.frames == []
        await place.commit(A)
        assert place.peer.frames == [A, first, second, B]

    simulate(story)


def test_a_gathered_response_that_is_there_at_once_waits_for_its_turn() -> None:
    async def story(place: Place) -> None:
        await place.send(A)
        place.connection.settle(bytearray(b"\0\0\0\3at!"))
        await asyncio.sleep(1)
        assert place.peer.frames == []
        await place.commit(A)
        assert place.peer.frames == [A, b"at!"]

    simulate(story)


def test_a_commit_of_offsets_is_not_gathered_behind_waiting_produces() -> None:
    commit = b"\0\x08g1"

    async def story(place: Place) -> None:
        await place.send(A)
        await place.send(commit)
        assert (place.frames.gathered, place.frames.handled) == ([], [A])
        await place.commit(A)
        assert place.frames.handled == [A, commit]

    simulate(story)


def test_the_number_of_waiting_produces_is_limited() -> None:
    frames = [request("a", number) for number in range(WAITING_PRODUCES_MAX + 10)]

    async def story(place: Place) -> None:
        await place.send(*frames)
        assert len(place.frames.handled) == WAITING_PRODUCES_MAX
        await place.commit(frames[0])
        assert len(place.frames.handled) == WAITING_PRODUCES_MAX + 1
        await place.commit(*frames[1 : WAITING_PRODUCES_MAX + 1])
        await place.commit(*frames[WAITING_PRODUCES_MAX + 1 :])
        assert place.peer.frames == place.frames.handled == frames

    simulate(story)


def test_the_memory_of_waiting_produces_is_limited_and_counted() -> None:
    held_bytes = WAITING_PRODUCES_BYTES_MAX // 4
    frames = [request("a", number) for number in range(10)]

    async def story(place: Place) -> None:
        await place.send(frames[0])
        assert place.connections.held_bytes == held_bytes
        await place.send(*frames[1:])
        assert place.frames.handled == frames[:4]
        queued_bytes = sum(map(len, frames[4:]))
        assert place.connections.held_bytes == 4 * held_bytes + queued_bytes
        for frame in frames:
            await place.commit(frame)
        assert place.peer.frames == frames
        assert place.connections.held_bytes == 0

    assert held_bytes > CROWDED_BYTES_MAX
    simulate(story, ProduceFrames(held_bytes=held_bytes))


def test_a_muted_connection_sends_responses_and_handles_nothing() -> None:
    async def story(place: Place) -> None:
        await place.send(A, B)
        place.connection.mute(60)
        await place.send(C)
        await place.commit(A, B)
        assert place.peer.frames == [A, B]
        assert place.frames.handled == [A, B]
        await asyncio.sleep(60)
        assert place.frames.handled == [A, B, C]

    simulate(story)


def test_a_bad_request_among_waiting_ones_ends_the_connection() -> None:
    async def story(place: Place) -> None:
        await place.send(A, request("x", 9), B)
        assert place.peer.lost
        assert place.frames.handled == [A, request("x", 9)]
        assert place.frames.abandoned == [A]
        await place.commit(A)
        assert place.peer.frames == []
        assert (len(place.connections), place.connections.held_bytes) == (0, 0)
        assert place.frames.faults == []

    simulate(story)


def test_a_bug_in_a_response_is_reported_once_and_no_later_response_is_sent() -> None:
    faulty = request("?", 9)

    async def story(place: Place) -> None:
        await place.send(A, faulty, B)
        await place.commit(B, faulty)
        assert place.frames.faults == []
        await place.commit(A)
        assert [str(fault) for fault in place.frames.faults] == ["our own fault"]
        assert B not in place.peer.frames

    simulate(story)


@pytest.mark.parametrize("end", ["abort", "close"])
def test_a_client_that_disconnects_abandons_all_that_wait(end: str) -> None:
    unappended = request("w", 9)

    async def story(place: Place) -> None:
        await place.send(A, B, C, unappended)
        await place.commit(B)
        getattr(place.peer.transport, end)()
        await asyncio.sleep(1)
        assert place.frames.abandoned == [A, B, C]
        assert (len(place.connections), place.connections.held_bytes) == (0, 0)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "request"]
        for frame in (A, C, unappended):
            place.frames.commit(frame)
        await asyncio.sleep(1)
        assert place.frames.handled == [A, B, C, unappended]
        assert place.frames.faults == []

    simulate(story)


def test_the_memory_of_gathered_requests_that_wait_is_counted_beyond_a_limit() -> None:
    held_bytes = CROWDED_BYTES_MAX // 2

    async def story(place: Place) -> None:
        frames = [request("g", number) for number in range(4)]
        for number, frame in enumerate(frames, 1):
            await place.send(frame)
            place.frames.settle_gathered()
            expected = 0 if number <= 2 else number * held_bytes
            assert place.connections.held_bytes == expected
        await place.commit(*frames)
        assert place.peer.frames == frames
        assert place.connections.held_bytes == 0

    simulate(story, ProduceFrames(held_bytes=held_bytes))


def test_a_client_that_disconnects_while_gathered_abandons_its_request() -> None:
    gathered = request("g", 1)

    async def story(place: Place) -> None:
        await place.send(gathered)
        place.peer.transport.abort()
        await asyncio.sleep(1)
        place.frames.settle_gathered()
        await asyncio.sleep(1)
        assert place.frames.abandoned == [gathered]
        assert place.frames.faults == []

    simulate(story)


def test_a_frame_of_one_byte_waits_like_any_other() -> None:
    async def story(place: Place) -> None:
        await place.send(A)
        await place.send(PRODUCE[:1])
        assert place.frames.handled == [A]

    simulate(story)
