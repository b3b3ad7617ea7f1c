"""Bytes and file slices are sent in order, on simulated networks and on real sockets."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from ottla.broker.net.send_queue import (
    COPIED_BYTES_MAX,
    READ_AHEAD_BYTES,
    TURN_BYTES_MAX,
    SendQueue,
)
from ottla.seams.files import File, Files, RealFiles
from ottla.seams.net import RealNet
from ottla.seams.threads import RealThreads, Threads
from ottla.storage.log.file_slice import Extent, FileSlice
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.faults import FaultRates
from tests.sim.seams.loop import run
from tests.sim.seams.net import SimNetwork
from tests.sim.seams.threads import SimThreads
from tests.sim.seams.wire import Conditions

CONTENT = bytes(range(251)) * 20_000


class Sender(asyncio.Protocol):
    """The sending side, with a queue as in a connection."""

    queue: SendQueue
    transport: asyncio.Transport

    def __init__(self, threads: Threads) -> None:
        self.drained = 0
        self.lost = False
        self._threads = threads

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.queue = SendQueue(self.transport, self._threads, self._on_drained)

    def pause_writing(self) -> None:
        self.queue.pause()

    def resume_writing(self) -> None:
        self.queue.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def send(self, *parts: Any) -> None:
        self.queue.put(parts)
        if self.queue.pump():
            self._on_drained()

    def _on_drained(self) -> None:
        self.drained += 1


class Taker(asyncio.Protocol):
    """The receiving side: reads, unless a test pauses it."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class Simulated:
    """A sender and a receiver on a simulated network, and a simulated disk."""

    def __init__(self, seed: int, conditions: Conditions) -> None:
        self.disk = SimDisk(seed)
        self.threads = SimThreads(SimEntropy(seed))
        self._network = SimNetwork(seed, conditions)

    def file(self, content: bytes = CONTENT) -> File:
        return stored(self.disk.process(), "/content", content)

    async def connect(self) -> tuple[Sender, Taker]:
        accepted: list[Sender] = []

        def accept() -> Sender:
            accepted.append(Sender(self.threads))
            return accepted[-1]

        await self._network.host("broker").listen(accept, "0.0.0.0", 1)
        taker = await self._network.host("client").connect(Taker, "broker", 1)
        await asyncio.sleep(0.1)
        return accepted[0], cast("Taker", taker)


def stored(files: Files, path: str, content: bytes) -> File:
    file = files.create(path)
    file.write_at(0, [content])
    return file


def simulate(
    story: Callable[[Simulated], Coroutine[Any, Any, None]],
    seed: int = 0,
    conditions: Conditions | None = None,
) -> None:
    async def tell() -> None:
        await story(Simulated(seed, conditions or Conditions()))

    run(tell(), seed)


def mixed(file: File, entropy: SimEntropy) -> tuple[list[Any], bytes]:
    """Bytes and slices, small and large, in any order; and their joined content."""
    parts: list[Any] = []
    expected = b""
    for number in range(entropy.between(5, 15)):
        if entropy.chance(0.4):
            part: Any = f"<{number}>".encode() * entropy.between(1, 3_000)
            expected += part
            if entropy.chance(0.5):
                part = memoryview(part)
        elif entropy.chance(0.2):
            part = memoryview(CONTENT)[: entropy.below(1_000_000)]
            expected += bytes(part)
        else:
            size = entropy.pick(
                (1, 100, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 1, 300_000, 1_200_000)
            )
            position = entropy.below(len(CONTENT) - size)
            part = FileSlice(file, position, size)
            expected += CONTENT[position : position + size]
        parts.append(part)
    return parts, expected


@pytest.mark.parametrize("seed", range(12))
def test_bytes_and_slices_arrive_in_order_on_any_network(seed: int) -> None:
    conditions = Conditions(late_read=bool(seed % 2), window_bytes=8_000 if seed % 3 else 1 << 20)

    async def story(simulated: Simulated) -> None:
        sender, taker = await simulated.connect()
        simulated.disk.faults.rates = FaultRates(cold=0.3 if seed % 4 else 0.0)
        parts, expected = mixed(simulated.file(), SimEntropy(seed))
        half = len(parts) // 2
        sender.send(*parts[:half])
        sender.send(*parts[half:])
        await asyncio.sleep(600)
        assert bytes(taker.received) == expected
        assert sender.queue.queued_bytes == 0
        assert sender.queue.borrowed_bytes == 0
        assert sender.queue.unsent_bytes == 0
        assert sender.queue.sent_bytes == len(expected)
        assert sender.drained >= 1

    simulate(story, seed, conditions)


def test_slices_for_a_slow_reader_stay_in_the_file() -> None:
    async def story(simulated: Simulated) -> None:
        sender, taker = await simulated.connect()
        taker.transport.pause_reading()
        sender.send(b"head", FileSlice(simulated.file(), 0, 5_000_000))
        await asyncio.sleep(60)
        assert sender.transport.get_write_buffer_size() <= TURN_BYTES_MAX
        assert sender.queue.queued_bytes >= 5_000_000 - TURN_BYTES_MAX
        assert sender.drained == 0
        taker.transport.resume_reading()
        await asyncio.sleep(60)
        assert bytes(taker.received) == b"head" + CONTENT[:5_000_000]
        assert sender.drained == 1

    simulate(story)


def test_only_own_memory_counts_as_unsent() -> None:
    """Slices are in files, and views refer to shared memory."""

    async def story(simulated: Simulated) -> None:
        sender, taker = await simulated.connect()
        taker.transport.pause_reading()
        shared = memoryview(CONTENT)
        own = bytes(700_000)
        sender.send(b"head", shared, FileSlice(simulated.file(), 0, 5_000_000), shared, own)
        await asyncio.sleep(60)
        assert len(own) <= sender.queue.unsent_bytes <= len(own) + TURN_BYTES_MAX
        assert sender.transport.get_write_buffer_size() <= TURN_BYTES_MAX
        taker.transport.resume_reading()
        await asyncio.sleep(60)
        assert bytes(taker.received) == b"".join(
            [b"head", CONTENT, CONTENT[:5_000_000], CONTENT, own]
        )
        assert sender.queue.unsent_bytes == 0

    simulate(story)


@pytest.mark.parametrize("size", [COPIED_BYTES_MAX, 1_000_000])
def test_a_file_that_ends_before_its_slice_ends_the_connection(size: int) -> None:
    async def story(simulated: Simulated) -> None:
        sender, taker = await simulated.connect()
        file = simulated.file()
        sender.send(b"head")
        sender.queue.put([FileSlice(file, 0, size), b"behind"])
        file.truncate(100)
        sender.queue.pump()
        await asyncio.sleep(10)
        assert sender.lost
        assert taker.lost
        assert b"behind" not in taker.received

    simulate(story)


@pytest.mark.parametrize("size", [COPIED_BYTES_MAX, 3_000_000])
@pytest.mark.parametrize("is_begun", [False, True])
def test_a_slice_of_a_truncated_file_that_grew_again_is_not_sent(size: int, is_begun: bool) -> None:
    """Its bytes are those of other batches now."""

    async def story(simulated: Simulated) -> None:
        sender, taker = await simulated.connect()
        taker.transport.pause_reading()
        file, extent = simulated.file(), Extent()
        sender.send(b"head", CONTENT)
        await asyncio.sleep(10)
        sender.queue.put([FileSlice(file, 0, size, extent), b"behind"])
        if is_begun and size > COPIED_BYTES_MAX:
            taker.transport.resume_reading()
            while len(taker.received) <= 4 + len(CONTENT):
                sender.queue.pump()
                await asyncio.sleep(0.0001)
        extent.end_at(size - 1)
        taker.transport.resume_reading()
        await asyncio.sleep(60)
        assert sender.lost
        assert taker.lost
        assert b"behind" not in taker.received
        assert len(taker.received) < 4 + len(CONTENT) + size

    simulate(story)


@pytest.mark.parametrize("size", [COPIED_BYTES_MAX, 1_000_000])
@pytest.mark.parametrize("cold_rate", [0.0, 1.0])
def test_a_slice_that_cannot_be_read_ends_the_connection(size: int, cold_rate: float) -> None:
    async def story(simulated: Simulated) -> None:
        sender, taker = await simulated.connect()
        file = simulated.file()
        simulated.disk.faults.rates = FaultRates(cold=cold_rate)
        simulated.disk.faults.fail_next_read()
        sender.send(FileSlice(file, 0, size), b"behind")
        await asyncio.sleep(10)
        assert sender.lost
        assert bytes(taker.received) == b""

    simulate(story)


@pytest.mark.parametrize("warm", [(), (0,), (0, 19_999), (0, 19_999, 20_000 + READ_AHEAD_BYTES)])
def test_a_small_slice_with_a_cold_page_is_read_by_a_thread_first(warm: tuple[int, ...]) -> None:
    async def story(simulated: Simulated) -> None:
        file = simulated.file()
        sender, taker = await simulated.connect()
        simulated.disk.chill()
        for position in warm:
            file.warm(position, 1)
        sender.send(b"before", FileSlice(file, 0, 20_000), b"behind")
        await asyncio.sleep(10)
        assert bytes(taker.received) == b"before" + CONTENT[:20_000] + b"behind"
        assert simulated.disk.pages_waited_for == 0

    simulate(story)


@pytest.mark.parametrize("cold_from", [50_000, 100_000, 100_000 + READ_AHEAD_BYTES])
def test_the_bytes_after_a_slice_are_read_ahead_with_it(
    cold_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(simulated: Simulated) -> None:
        file = simulated.file()
        warmed: list[tuple[int, int]] = []
        monkeypatch.setattr(type(file), "is_warm", lambda _, position: position < cold_from)
        monkeypatch.setattr(type(file), "warm", lambda _, *place: warmed.append(place))
        sender, taker = await simulated.connect()
        sender.send(FileSlice(file, 0, 100_000))
        await asyncio.sleep(10)
        assert bytes(taker.received) == CONTENT[:100_000]
        is_read_ahead = cold_from < 100_000 + READ_AHEAD_BYTES
        assert warmed == [(0, 100_000 + READ_AHEAD_BYTES)] * is_read_ahead

    simulate(story)


def test_a_large_response_lets_others_have_their_turn() -> None:
    async def story(simulated: Simulated) -> None:
        file = simulated.file()
        sender, _ = await simulated.connect()
        turns: list[int] = []

        def take_turn() -> None:
            turns.append(sender.queue.sent_bytes)
            if sender.queue.queued_bytes:
                asyncio.get_running_loop().call_soon(take_turn)

        many_small = [FileSlice(file, 0, COPIED_BYTES_MAX)] * 100
        sender.queue.put([*many_small, FileSlice(file, 0, 4 << 20)])
        asyncio.get_running_loop().call_soon(take_turn)
        sender.queue.pump()
        await asyncio.sleep(10)
        steps = [after - before for before, after in itertools.pairwise(turns)]
        assert max(steps) < 2 * TURN_BYTES_MAX
        assert turns[-1] == 100 * COPIED_BYTES_MAX + (4 << 20)

    simulate(story, conditions=Conditions(window_bytes=1 << 30))


def test_an_unsendable_part_is_a_bug() -> None:
    async def story(simulated: Simulated) -> None:
        sender, _ = await simulated.connect()
        sender.queue.put([[1, 2, 3]])
        with pytest.raises(TypeError):
            sender.queue.pump()

    simulate(story)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_real_sockets_take_real_slices(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    async def story() -> None:
        threads = RealThreads(1)
        file = stored(RealFiles(), str(tmp_path / "content"), CONTENT)
        senders: list[Sender] = []

        def accept() -> Sender:
            senders.append(Sender(threads))
            return senders[-1]

        listener = await RealNet().listen(accept, "127.0.0.1", 0)
        taker = cast("Taker", await RealNet().connect(Taker, "127.0.0.1", listener.port))
        while not senders:
            await asyncio.sleep(0.001)
        parts, expected = mixed(file, SimEntropy(7))
        taker.transport.pause_reading()
        senders[0].send(*parts)
        await asyncio.sleep(0.01)
        taker.transport.resume_reading()
        while len(taker.received) < len(expected) and not taker.lost:
            await asyncio.sleep(0.001)
        assert bytes(taker.received) == expected
        taker.transport.close()
        # The loop must see the end of the connection before it stops, or a socket stays open.
        while not senders[0].lost:
            await asyncio.sleep(0.001)
        await listener.close()
        threads.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(story())
