"""Connections: requests, responses in order, and limits for every client.

The requests here are not Kafka's: the first letter of a frame selects its handling.
"""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from ottla.broker.net.connection import (
    CROWDED_BYTES_MAX,
    TURN_BYTES_MAX,
    UNSENT_BYTES_MAX,
    Connection,
)
from ottla.broker.net.connections import STUCK_MS_MAX, ConnectionLimits, Connections
from ottla.broker.net.receive_buffer import SCRATCH_BYTES
from ottla.broker.net.response_queue import PendingResponse, ResponseParts
from ottla.broker.net.session import Session
from ottla.errors import ErrorCode, PeerError
from ottla.metrics.node import NodeMetrics
from ottla.protocol.framing import FrameReader
from ottla.settings.listeners import SecurityProtocol
from tests.sim.seams.clock import SimClock
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.net import SimNetwork
from tests.sim.seams.threads import SimThreads
from tests.sim.seams.wire import Conditions
from tests.support.broker.simulated_broker import Notes

LIMITS = ConnectionLimits(
    frame_bytes_max=4 << 20,
    queued_bytes_max=8 << 20,
    unsent_bytes_max=256 << 20,
    connections_max=100,
    connections_max_per_ip=100,
    idle_ms_max=600_000,
)
BIG_REPLY = bytes(400_000)
# Only frames that arrive in one piece are gathered.
IN_ONE_PIECE = Conditions(split_rate=0.0)


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


class Letters:
    """Handles a frame by its first letter.

    `e` echoes at once, `w` later by a coroutine, `f` later by a future. `n` and `s` get no
    response, `b` gets a large one. `x` is a PeerError, `!` a bug, `?` a bug in a later response.
    `g` and `l` are gathered: `g` is then echoed at once, `l` later. `s` is gathered by
    `gather_silent`.
    """

    def __init__(self) -> None:
        self.handled: list[bytes] = []
        self.gathered: list[tuple[Connection, bytes]] = []
        self.faults: list[Exception] = []

    def gather(self, frame: memoryview, connection: Connection) -> bool:
        if chr(frame[0]) not in "gl":
            return False
        self.gathered.append((connection, bytes(frame)))
        return True

    def gather_silent(self, frame: memoryview, connection: Connection) -> bool:
        if chr(frame[0]) != "s":
            return False
        self.gathered.append((connection, bytes(frame)))
        return True

    def settle_gathered(self) -> None:
        gathered, self.gathered = self.gathered, []
        for connection, frame in gathered:
            self.handled.append(frame)
            if frame.startswith(b"s"):
                connection.settle(None)
            elif frame.startswith(b"g"):
                connection.settle(bytearray(framed(frame)))
            else:
                connection.settle(self._later(frame))

    def handle(
        self, frame: memoryview, connection: Connection
    ) -> ResponseParts | PendingResponse | Awaitable[ResponseParts]:
        self.handled.append(bytes(frame))
        match chr(frame[0]):
            case "e" | "g" | "l":
                return [framed(bytes(frame))]
            case "w":
                return self._later(bytes(frame))
            case "f" | "?":
                return self._with_future(bytes(frame))
            case "n" | "s":
                return None
            case "b":
                return [framed(bytes(frame) + BIG_REPLY)]
            case "x":
                raise PeerError(ErrorCode.INVALID_REQUEST, "a bad letter")
            case _:
                raise RuntimeError("our own fault")

    def failed(self, error: Exception) -> None:
        self.faults.append(error)

    def _with_future(self, frame: bytes) -> PendingResponse:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes] = loop.create_future()

        def settle() -> None:
            if not future.done():
                future.set_result(frame)

        def finish(come: asyncio.Future[bytes]) -> ResponseParts:
            if come.result().startswith(b"?"):
                raise RuntimeError("our own fault")
            return [framed(come.result())]

        loop.call_later(0.05, settle)
        return PendingResponse(future, finish)

    async def _later(self, frame: bytes) -> ResponseParts:
        await asyncio.sleep(0.05)
        return [framed(frame)]


class Peer(asyncio.Protocol):
    """A client that writes any bytes, and keeps the frames of the responses."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.lost = False
        self._reader = FrameReader(1 << 30)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            self.frames.append(bytes(frame))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def send(self, *frames: bytes) -> None:
        self.transport.write(framed(*frames))


class Place:
    """A broker's connections, and their clients."""

    def __init__(
        self, clock: SimClock, limits: ConnectionLimits, seed: int, conditions: Conditions
    ) -> None:
        self.clock = clock
        self.network = SimNetwork(seed, conditions)
        self.letters = Letters()
        self.metrics = NodeMetrics()
        self.connections = Connections(
            clock=clock,
            threads=SimThreads(SimEntropy(seed)),
            limits=limits,
            metrics=self.metrics,
            logger=Notes(),
        )

    async def open(self) -> None:
        plaintext = SecurityProtocol.PLAINTEXT
        listener = await self.network.host("broker").bind("0.0.0.0", 9092)
        await self.connections.accept(listener, self.letters, "PLAINTEXT", plaintext)

    async def connect(self, host: str = "client") -> Peer:
        peer = await self.network.host(host).connect(Peer, "broker", 9092)
        await asyncio.sleep(0.05)
        return cast("Peer", peer)

    @property
    def refused(self) -> dict[str, int]:
        return self.metrics.listener("PLAINTEXT").refused.counts

    @property
    def ended(self) -> dict[str, int]:
        return self.metrics.listener("PLAINTEXT").closed.counts


def simulate(
    story: Callable[[Place], Coroutine[Any, Any, None]],
    *,
    seed: int = 0,
    conditions: Conditions | None = None,
    **limits: int,
) -> None:
    clock = SimClock()

    async def tell() -> None:
        place = Place(clock, replace(LIMITS, **limits), seed, conditions or Conditions())
        await place.open()
        await story(place)

    run(tell(), seed, clock=clock)


def numbered(letters: str, count: int) -> list[bytes]:
    """Numbered requests, with the letters in turn."""
    return [f"{letters[number % len(letters)]}{number}".encode() for number in range(count)]


@pytest.mark.parametrize("late_read", [False, True])
def test_one_byte_at_a_time_gives_the_same_replies_in_the_same_order(late_read: bool) -> None:
    requests = numbered("ewe", 12)

    async def story(place: Place) -> None:
        peer = await place.connect()
        for byte in framed(*requests):
            peer.transport.write(bytes([byte]))
            await asyncio.sleep(0.003)
        await asyncio.sleep(5)
        assert peer.frames == requests

    simulate(story, conditions=Conditions(late_read=late_read))


@pytest.mark.parametrize("seed", range(6))
def test_fifty_pipelined_requests_are_answered_one_after_another(seed: int) -> None:
    requests = numbered("ewefn", 50)

    async def story(place: Place) -> None:
        peer = await place.connect()
        peer.send(*requests)
        await asyncio.sleep(30)
        assert peer.frames == [each for each in requests if not each.startswith(b"n")]
        assert place.letters.handled == requests

    simulate(story, seed=seed, conditions=Conditions(late_read=seed % 2 == 1))


def test_a_gathered_request_is_answered_when_it_is_settled() -> None:
    async def story(place: Place) -> None:
        peers = [await place.connect() for _ in range(3)]
        for number, peer in enumerate(peers):
            peer.send(b"g%d" % number)
        await asyncio.sleep(1)
        gathered = sorted(frame for _, frame in place.letters.gathered)
        assert gathered == [b"g0", b"g1", b"g2"]
        assert all(not peer.frames for peer in peers)
        place.letters.settle_gathered()
        await asyncio.sleep(1)
        assert [peer.frames for peer in peers] == [[b"g0"], [b"g1"], [b"g2"]]

    simulate(story, conditions=IN_ONE_PIECE)


@pytest.mark.parametrize("first", [b"g1", b"l1"])
def test_a_request_after_a_gathered_one_is_answered_after_it(first: bytes) -> None:
    async def story(place: Place) -> None:
        peer = await place.connect()
        peer.send(first)
        await asyncio.sleep(1)
        peer.send(b"e2", b"w3")
        await asyncio.sleep(1)
        peer.send(b"g4")
        await asyncio.sleep(1)
        place.letters.settle_gathered()
        await asyncio.sleep(1)
        assert peer.frames == [first, b"e2", b"w3", b"g4"]

    simulate(story, conditions=IN_ONE_PIECE)


def test_requests_without_a_response_are_gathered_after_the_first_of_them() -> None:
    async def story(place: Place) -> None:
        peer = await place.connect()
        peer.send(*numbered("s", 20))
        await asyncio.sleep(1)
        assert place.letters.handled == [b"s0"]
        assert [frame for _, frame in place.letters.gathered] == numbered("s", 20)[1:]
        peer.send(b"e20")
        await asyncio.sleep(1)
        assert place.letters.handled == [*numbered("s", 20), b"e20"]
        assert peer.frames == [b"e20"]

    simulate(story, conditions=IN_ONE_PIECE)


@pytest.mark.parametrize("seed", range(12))
def test_requests_with_and_without_a_response_keep_their_order(seed: int) -> None:
    requests = numbered("ssesswsnssgsfls", 150)

    async def story(place: Place) -> None:
        peer = await place.connect()
        for begin in range(0, len(requests), 25):
            peer.send(*requests[begin : begin + 25])
            await asyncio.sleep(0.001 * (seed % 3))
            place.letters.settle_gathered()
        await asyncio.sleep(30)
        place.letters.settle_gathered()
        await asyncio.sleep(1)
        assert place.letters.handled == requests
        assert peer.frames == [each for each in requests if each[:1] not in (b"s", b"n")]

    conditions = IN_ONE_PIECE if seed % 2 else Conditions()
    simulate(story, seed=seed, conditions=conditions)


def test_nothing_is_gathered_from_a_connection_with_a_request_in_flight() -> None:
    async def story(place: Place) -> None:
        peer = await place.connect()
        peer.send(b"w1")
        await asyncio.sleep(0.03)
        peer.send(b"g2")
        await asyncio.sleep(1)
        assert place.letters.gathered == []
        assert peer.frames == [b"w1", b"g2"]

    simulate(story, conditions=IN_ONE_PIECE)


def test_a_client_that_disconnects_while_gathered_leaves_nothing_behind() -> None:
    async def story(place: Place) -> None:
        peer = await place.connect()
        peer.send(b"g1")
        await asyncio.sleep(1)
        peer.transport.abort()
        await asyncio.sleep(1)
        place.letters.settle_gathered()
        await asyncio.sleep(1)
        assert place.letters.faults == []
        assert len(place.connections) == 0

    simulate(story, conditions=IN_ONE_PIECE)


@pytest.mark.parametrize("first", [b"w1", b"f1"])
def test_one_request_is_in_flight_at_a_time(first: bytes) -> None:
    async def story(place: Place) -> None:
        peer = await place.connect()
        peer.send(first, b"w2", b"e3")
        await asyncio.sleep(0.03)
        assert place.letters.handled == [first]
        await asyncio.sleep(1)
        assert peer.frames == [first, b"w2", b"e3"]

    simulate(story)


def test_a_frame_of_the_largest_size_is_accepted_and_a_larger_one_ends_the_connection() -> None:
    async def story(place: Place) -> None:
        peer = await place.connect()
        largest = b"e" + bytes(LIMITS.frame_bytes_max - 1)
        peer.send(largest)
        await asyncio.sleep(60)
        assert peer.frames == [largest]
        peer.transport.write((LIMITS.frame_bytes_max + 1).to_bytes(4, "big"))
        await asyncio.sleep(1)
        assert peer.lost
        assert place.ended == {"bad request": 1}
        assert place.connections.held_bytes == 0

    simulate(story)


def test_a_bad_request_ends_its_connection_and_no_other() -> None:
    async def story(place: Place) -> None:
        bad, good = await place.connect(), await place.connect()
        bad.send(b"e1", b"x", b"e2")
        good.send(b"e1")
        await asyncio.sleep(1)
        assert bad.lost
        assert b"e2" not in place.letters.handled
        assert (good.frames, good.lost) == ([b"e1"], False)
        assert place.letters.faults == []

    simulate(story)


def test_a_bug_is_reported_at_once_or_later() -> None:
    async def story(place: Place) -> None:
        peer = await place.connect()
        peer.send(b"!")
        await asyncio.sleep(1)
        peer.send(b"w", b"!")
        await asyncio.sleep(1)
        other = await place.connect()
        other.send(b"?")
        await asyncio.sleep(1)
        assert [str(fault) for fault in place.letters.faults] == ["our own fault"] * 3

    simulate(story)


def test_a_client_that_does_not_read_responses_is_not_read_from() -> None:
    async def story(place: Place) -> None:
        slow, quick = await place.connect(), await place.connect()
        slow.transport.pause_reading()
        slow.send(*numbered("b", 200))
        await asyncio.sleep(10)
        # One more than fits: the limit is checked before a request, not within its response.
        most = (UNSENT_BYTES_MAX + 2 * len(BIG_REPLY)) // len(BIG_REPLY) + 1
        assert len(place.letters.handled) <= most
        quick.send(b"e1")
        await asyncio.sleep(1)
        assert quick.frames == [b"e1"]
        slow.transport.resume_reading()
        await asyncio.sleep(600)
        assert [frame[:4].rstrip(b"\0") for frame in slow.frames] == numbered("b", 200)

    simulate(story)


def test_unread_responses_are_bounded_for_all_connections_together() -> None:
    limit = 4_000_000

    async def story(place: Place) -> None:
        quick = await place.connect("quick")
        slow = []
        highest = 0
        for number in range(60):
            peer = await place.connect(f"slow-{number}")
            peer.transport.pause_reading()
            peer.send(*numbered("b", 3))
            slow.append(peer)
            for _ in range(20):
                highest = max(highest, place.connections.unsent_bytes)
                await asyncio.sleep(0.01)
            quick.send(f"e{number}".encode())
        await asyncio.sleep(5)
        assert highest <= limit
        assert place.connections.unsent_bytes > limit // 4, "it is not bounded by other means"
        assert place.ended.keys() == {"unsent replies"}
        assert 0 < place.ended["unsent replies"] < 60
        assert not quick.lost
        assert quick.frames == [f"e{number}".encode() for number in range(60)]
        for peer in slow:
            peer.transport.abort()
        await asyncio.sleep(5)
        assert place.connections.unsent_bytes == 0
        assert not place.connections.is_response_memory_scarce

    simulate(story, unsent_bytes_max=limit)


def test_unread_responses_to_gathered_requests_are_counted() -> None:
    async def story(place: Place) -> None:
        peers = [await place.connect(f"slow-{number}") for number in range(20)]
        for _ in range(2):
            for peer in peers:
                peer.transport.pause_reading()
                peer.send(b"g" + bytes(60_000))
            await asyncio.sleep(1)
            place.letters.settle_gathered()
        await asyncio.sleep(1)
        assert place.ended.keys() == {"unsent replies"}
        assert 0 < place.connections.unsent_bytes <= 300_000

    simulate(story, unsent_bytes_max=300_000, conditions=IN_ONE_PIECE)


def test_the_connection_with_the_most_unread_bytes_is_ended_first() -> None:
    async def story(place: Place) -> None:
        small, large = await place.connect("small"), await place.connect("large")
        for peer, count in ((large, 2), (small, 1)):
            peer.transport.pause_reading()
            peer.send(*numbered("b", count))
            await asyncio.sleep(1)
        assert (small.lost, large.lost) == (False, False)
        other = await place.connect("other")
        other.transport.pause_reading()
        other.send(b"b")
        await asyncio.sleep(1)
        assert place.ended == {"unsent replies": 1}
        small.transport.resume_reading()
        other.transport.resume_reading()
        large.transport.resume_reading()
        await asyncio.sleep(5)
        assert [len(peer.frames) for peer in (small, other)] == [1, 1]
        assert large.lost

    simulate(story, unsent_bytes_max=1_300_000, conditions=Conditions(window_bytes=1 << 10))


def test_while_response_memory_is_scarce_a_client_reads_one_response_before_the_next() -> None:
    async def story(place: Place) -> None:
        first, second = await place.connect("first"), await place.connect("second")
        first.transport.pause_reading()
        first.send(*numbered("b", 3))
        await asyncio.sleep(1)
        assert place.connections.is_response_memory_scarce
        second.transport.pause_reading()
        second.send(*numbered("b", 9))
        await asyncio.sleep(1)
        handled = len(place.letters.handled)
        assert handled == 4, "one reply, and the next once it is taken"
        assert not place.ended
        for peer in (first, second):
            peer.transport.resume_reading()
        await asyncio.sleep(60)
        assert [len(peer.frames) for peer in (first, second)] == [3, 9]
        assert place.connections.unsent_bytes == 0

    simulate(story, unsent_bytes_max=2_000_000, conditions=Conditions(window_bytes=1 << 10))


def test_a_response_above_the_limit_is_sent_to_a_single_connection() -> None:
    async def story(place: Place) -> None:
        peer = await place.connect()
        peer.send(*numbered("b", 5))
        await asyncio.sleep(60)
        assert [frame[:2] for frame in peer.frames] == numbered("b", 5)
        assert not place.ended

    simulate(story, unsent_bytes_max=1_000)


def test_a_lower_limit_applies_to_existing_connections() -> None:
    async def story(place: Place) -> None:
        peers = [await place.connect(f"slow-{number}") for number in range(4)]
        for peer in peers:
            peer.transport.pause_reading()
            peer.send(b"b")
        await asyncio.sleep(1)
        assert not place.ended
        place.connections.limits = replace(LIMITS, unsent_bytes_max=500_000)
        assert place.ended == {"unsent replies": 3}
        assert place.connections.unsent_bytes <= 500_000

    simulate(story, conditions=Conditions(window_bytes=1 << 10))


def test_a_bulk_sender_does_not_delay_small_requests() -> None:
    async def story(place: Place) -> None:
        bulk, small = await place.connect("bulk"), await place.connect("small")
        for number in range(64):
            bulk.send(f"n{number}".encode() + bytes(100_000))
        await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        began = loop.time()
        small.send(b"e1")
        while not small.frames:
            await asyncio.sleep(0.0005)
        handled_before = place.letters.handled.index(b"e1")
        assert handled_before < 64, "not all of the bulk came first"
        assert loop.time() - began < 0.02
        await asyncio.sleep(60)
        assert len(place.letters.handled) == 65

    simulate(story, conditions=Conditions(window_bytes=1 << 20))


def test_half_received_requests_share_a_limit_and_all_finish_in_the_end() -> None:
    size = 1_000_000

    async def story(place: Place) -> None:
        peers = [await place.connect(f"client-{number}") for number in range(8)]
        request = b"e" + bytes(size)
        highest = 0
        for peer in peers:
            peer.send(request)
        for _ in range(4_000):
            highest = max(highest, place.connections.held_bytes)
            await asyncio.sleep(0.005)
        assert [len(peer.frames) for peer in peers] == [1] * 8
        # Connections that resume together may each take memory before the limit stops them.
        assert highest <= 2_000_000 + 2 * size
        assert place.connections.held_bytes == 0

    simulate(story, queued_bytes_max=2_000_000)


def test_a_request_that_stops_midway_is_ended_for_those_that_wait() -> None:
    async def story(place: Place) -> None:
        stuck, waiting = await place.connect("stuck"), await place.connect("waiting")
        stuck.transport.write(framed(b"e" + bytes(900_000))[:800_000])
        await asyncio.sleep(5)
        waiting.send(b"e" + bytes(900_000))
        await asyncio.sleep(STUCK_MS_MAX / 1000)
        assert waiting.frames == []
        place.connections.end_idle()
        await asyncio.sleep(5)
        assert stuck.lost
        assert len(waiting.frames) == 1
        assert place.ended == {"stuck": 1}

    simulate(story, queued_bytes_max=500_000)


def test_more_connections_than_allowed_are_closed_at_once() -> None:
    async def story(place: Place) -> None:
        first = [await place.connect("one") for _ in range(2)]
        third = await place.connect("one")
        other = await place.connect("two")
        last = await place.connect("three")
        assert [peer.lost for peer in (*first, third, other, last)] == [
            False,
            False,
            True,
            False,
            True,
        ]
        assert place.refused == {"max.connections.per.ip": 1, "max.connections": 1}
        first[0].transport.close()
        await asyncio.sleep(1)
        again = await place.connect("one")
        again.send(b"e1")
        await asyncio.sleep(1)
        assert again.frames == [b"e1"]

    simulate(story, connections_max=3, connections_max_per_ip=2)


def test_connections_beyond_the_process_limit_are_closed() -> None:
    async def story(place: Place) -> None:
        place.connections.descriptors_max = 2
        peers = [await place.connect() for _ in range(3)]
        assert [peer.lost for peer in peers] == [False, False, True]
        assert place.refused == {"descriptors": 1}

    simulate(story)


def test_idle_connections_are_ended_and_active_ones_are_not() -> None:
    async def story(place: Place) -> None:
        silent, talking = await place.connect(), await place.connect()
        for _ in range(4):
            await asyncio.sleep(200)
            talking.send(b"e")
            await asyncio.sleep(1)
            place.connections.end_idle()
        await asyncio.sleep(1)
        assert (silent.lost, talking.lost) == (True, False)
        assert len(place.connections) == 1

    simulate(story)


@pytest.mark.parametrize("seed", range(10))
def test_resets_at_any_time_leave_nothing_behind(seed: int) -> None:
    async def story(place: Place) -> None:
        peers = [await place.connect(f"client-{number}") for number in range(6)]
        for peer in peers:
            peer.send(*numbered("ewbf", 30))
        await asyncio.sleep(0.02 * seed)
        for number in range(6):
            place.network.reset(f"client-{number}", "broker")
        await asyncio.sleep(60)
        assert len(place.connections) == 0
        assert place.connections.held_bytes == 0
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "request"]
        assert place.letters.faults == []
        for peer in peers:
            expected = numbered("ewbf", 30)[: len(peer.frames)]
            assert [frame[:3].rstrip(b"\0") for frame in peer.frames] == expected

    simulate(story, seed=seed, conditions=Conditions(late_read=seed % 2 == 0))


def test_an_idle_connection_holds_no_buffer() -> None:
    async def story(place: Place) -> None:
        for _ in range(20):
            peer = await place.connect()
            peer.send(b"e1")
        await asyncio.sleep(1)
        assert len(place.connections) == 20
        assert place.connections.held_bytes == 0

    simulate(story)


class Eager(asyncio.Transport):
    """A transport that always has more to read, like libuv, and notes whether it may read."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.steps.append("pause")

    def resume_reading(self) -> None:
        self.steps.append("resume")


def test_a_connection_is_not_read_beyond_its_bytes_per_turn() -> None:
    async def story(place: Place) -> None:
        scratch = memoryview(bytearray(SCRATCH_BYTES))
        connection = Connection(
            place.letters,
            place.connections,
            SimThreads(SimEntropy(0)),
            scratch,
            Session(place.letters, "PLAINTEXT", SecurityProtocol.PLAINTEXT),
            frame_bytes_max=LIMITS.frame_bytes_max,
        )
        transport = Eager()
        connection.connection_made(transport)
        sent = framed(b"n" + bytes(50_000))
        read_bytes = 0
        while not transport.steps:
            connection.get_buffer(-1)[: len(sent)] = sent
            connection.buffer_updated(len(sent))
            read_bytes += len(sent)
        assert TURN_BYTES_MAX < read_bytes <= TURN_BYTES_MAX + len(sent)
        assert transport.steps == ["pause"]
        await asyncio.sleep(0)
        assert transport.steps == ["pause", "resume"]

    simulate(story)


class Holding:
    """Stands for a connection that holds a part of a request."""

    def __init__(self) -> None:
        self.went_on = 0

    def resume(self) -> None:
        self.went_on += 1


def test_a_connection_that_waits_for_memory_still_waits_when_it_holds_a_little_less() -> None:
    share = CROWDED_BYTES_MAX

    async def story(place: Place) -> None:
        reading: Any = Holding()
        waiting: Any = Holding()
        update_held_bytes = place.connections.update_held_bytes
        assert update_held_bytes(reading, 0, 8 * share)
        assert not update_held_bytes(waiting, 0, 8 * share), (
            "over the limit, and another is under way"
        )
        assert not update_held_bytes(waiting, 8 * share, 6 * share)
        assert waiting.went_on == 0
        assert update_held_bytes(reading, 8 * share, 0)
        assert waiting.went_on == 1
        assert update_held_bytes(waiting, 6 * share, 0)
        assert place.connections.held_bytes == 0

    simulate(story, queued_bytes_max=10 * share)


def test_a_connection_that_ends_within_a_frame_frees_its_memory_at_once() -> None:
    """Not only when the garbage collector runs, which is seldom."""

    async def story(place: Place) -> None:
        ended: list[weakref.ref[Connection]] = []
        closed = place.connections.closed

        def note(connection: Connection) -> None:
            ended.append(weakref.ref(connection))
            closed(connection)

        place.connections.closed = note  # type: ignore[method-assign]
        gc.collect()
        gc.disable()
        try:
            for end in ("close", "abort"):
                peer = await place.connect()
                peer.transport.write((3 << 20).to_bytes(4, "big") + bytes(2 << 20))
                await asyncio.sleep(1)
                assert place.connections.held_bytes > 1 << 20
                getattr(peer.transport, end)()
                await asyncio.sleep(1)
                assert place.connections.held_bytes == 0
            held = [each._receiver.received_bytes for ref in ended if (each := ref())]
        finally:
            gc.enable()
        assert len(ended) == 2
        assert sum(held) == 0

    simulate(story)
