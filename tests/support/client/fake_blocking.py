"""The brokers of a fake cluster for the blocking client, without threads, sockets or waiting."""

from collections.abc import Callable, Sequence
from typing import Any

from ottla.client.blocking.client import BlockingClient
from ottla.client.options import ClientOptions
from ottla.protocol.framing import FrameReader
from tests.sim.seams.clock import SimClock
from tests.sim.seams.entropy import SimEntropy
from tests.support.client.fake_cluster import FakeBroker, FakeCluster


class FakeStream:
    """Answers at once; without a response, the timeout passes on the simulated clock."""

    def __init__(self, broker: FakeBroker, clock: SimClock) -> None:
        self._broker = broker
        self._clock = clock
        self._frames = FrameReader(100 << 20)
        self.coming = bytearray()
        self.is_closed = False
        self.is_broken = False

    def send(self, parts: Sequence[bytes], timeout_ms: int) -> None:
        if self.is_broken:
            raise BrokenPipeError(32, "gone")
        self._frames.feed(b"".join(parts))
        while (frame := self._frames.next_frame()) is not None:
            for part in _finished(self._broker.answer(bytes(frame))) or ():
                self.coming += part

    def receive(self, size_max: int, timeout_ms: int) -> bytes:
        if self.is_broken:
            return b""
        if not self.coming:
            self._clock.timeline.advance_ns(timeout_ms * 1_000_000)
            raise TimeoutError
        # In pieces, which the receiver has to join.
        size = min(size_max, max(1, len(self.coming) // 2))
        chunk = bytes(self.coming[:size])
        del self.coming[:size]
        return chunk

    def close(self) -> None:
        self.is_closed = True


class FakeBlocking:
    """Connects to the brokers of a cluster by name, except those that are `away`."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.clock = SimClock()
        self.away: set[str] = set()
        self.streams: list[FakeStream] = []
        self.pauses_ms: list[int] = []
        # Actions by the number of pauses after which they run.
        self.after_pauses: dict[int, Callable[[], None]] = {}
        self._brokers = {broker.name: broker for broker in cluster.brokers.values()}

    def dial(self, host: str, port: int, timeout_ms: int) -> FakeStream:
        if host in self.away or host not in self._brokers:
            raise ConnectionRefusedError(111, "refused")
        stream = FakeStream(self._brokers[host], self.clock)
        self.streams.append(stream)
        return stream

    def pause(self, pause_ms: int) -> None:
        self.pauses_ms.append(pause_ms)
        self.clock.timeline.advance_ns(pause_ms * 1_000_000)
        self.after_pauses.get(len(self.pauses_ms), lambda: None)()

    def client(self, bootstrap: str = "b1", **options: int) -> BlockingClient:
        return BlockingClient(
            bootstrap,
            ClientOptions(**options),
            blocking=self,
            clock=self.clock,
            entropy=SimEntropy(0),
        )


def _finished(answering: Any) -> Any:
    """The result of a coroutine that never waits."""
    try:
        answering.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a fake broker waits for something")
