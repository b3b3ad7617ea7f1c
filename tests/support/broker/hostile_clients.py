"""Hostile clients, and a normal client that must not be affected by them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from ottla.broker.node.node import Node
from ottla.protocol.framing import FrameReader
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import HOST, PORT, Client, Machine, create, new_topic

TOPIC = "bystander"
PAUSE_S = 0.05
# Far more than a round takes on the simulated network, far less than any timeout.
ROUND_S_MAX = 1.0


class HostileClient(asyncio.Protocol):
    """Sends any bytes, and keeps the frames of the responses."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.was_closed = False
        self._reader = FrameReader(1 << 30)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            self.frames.append(bytes(frame))

    def connection_lost(self, exc: Exception | None) -> None:
        self.was_closed = True

    def send(self, sent: bytes) -> None:
        self.transport.write(sent)


class Bystander:
    """Produces and fetches all the time, and measures each round."""

    def __init__(self, client: Client) -> None:
        self.rounds = 0
        self.longest_s = 0.0
        self._client = client

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            value = str(self.rounds).encode()
            produced = only(await self._client.ask(produce(TOPIC, batch(value)), 9))
            assert (produced.error_code, produced.base_offset) == (0, self.rounds)
            fetched = await self._client.ask(fetch(TOPIC, wanted(offset=self.rounds)), 12)
            assert values(only(fetched).records) == [value]
            self.rounds += 1
            self.longest_s = max(self.longest_s, loop.time() - began)
            await asyncio.sleep(PAUSE_S)


class HostileScene:
    """A broker, its hostile clients and the bystander."""

    def __init__(self, machine: Machine, node: Node, bystander: Bystander) -> None:
        self.machine = machine
        self.node = node
        self.bystander = bystander

    async def hostile(self, host: str = "stranger") -> HostileClient:
        net = self.machine.network.host(host)
        return cast("HostileClient", await net.connect(HostileClient, HOST, PORT))

    @property
    def ended(self) -> dict[str, int]:
        """The number of connections that the broker ended, by reason."""
        return self.node.metrics.listener("PLAINTEXT").closed.counts

    @property
    def refused(self) -> dict[str, int]:
        """The number of connections that the broker refused, by reason."""
        return self.node.metrics.listener("PLAINTEXT").refused.counts

    @property
    def connections(self) -> int:
        """The number of open connections besides the bystander's."""
        return self.node.metrics.listener("PLAINTEXT").connections - 1

    def told(self, event: str) -> list[dict[str, object]]:
        """The fields of every logged event of this name."""
        return [fields for _, name, fields in self.machine.notes.entries if name == event]


def beside_a_bystander(
    story: Callable[[HostileScene], Coroutine[Any, Any, None]],
    machine: Machine | None = None,
    **settings: str,
) -> None:
    """Runs a story with one broker, and checks that the bystander was never delayed."""
    machine = machine or Machine()

    async def tell() -> None:
        async with machine.running(**settings) as (client, node):
            await create(client, new_topic(TOPIC))
            bystander = Bystander(client)
            working = asyncio.create_task(bystander.work(), name="bystander")
            telling = asyncio.create_task(
                story(HostileScene(machine, node, bystander)), name="story"
            )
            try:
                await asyncio.wait((working, telling), return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    telling.cancel()
                    working.result()
                telling.result()
                await asyncio.sleep(2 * ROUND_S_MAX)
                assert bystander.rounds > 0
                assert bystander.longest_s < ROUND_S_MAX
            finally:
                working.cancel()
                await asyncio.gather(working, telling, return_exceptions=True)

    run(tell(), clock=machine.clock)
