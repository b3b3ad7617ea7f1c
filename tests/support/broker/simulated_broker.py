"""A whole broker in virtual time, and a client on the simulated network."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast

from ottla.broker.node.context import Seams
from ottla.broker.node.metadata_store import EMBEDDED, StoreFactory
from ottla.broker.node.node import Node
from ottla.protocol.exchange import decode_response, encode_request
from ottla.protocol.framing import FrameReader
from ottla.protocol.messages import APIS, Api
from ottla.protocol.messages.create_topics import Assignment, Config, CreateTopicsRequest, Topic
from ottla.protocol.primitives import Uuid
from ottla.settings.sources import load
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.files import SimFiles
from tests.sim.seams.loop import run
from tests.sim.seams.net import SimNetwork
from tests.sim.seams.threads import SimThreads
from tests.sim.seams.workers import SimWorkers

HOST = "one"
PORT = 9092
FRAME_BYTES_MAX = 100 << 20


class ChosenIds(SimEntropy):
    """Entropy that first gives the ids of a test."""

    __slots__ = ("ids",)

    def __init__(self, seed: int | str = 0) -> None:
        super().__init__(seed)
        self.ids: deque[Uuid] = deque()

    def token(self, size: int) -> bytes:
        if self.ids and size == len(self.ids[0]):
            return self.ids.popleft()
        return super().token(size)


class Notes:
    """A logger that keeps its events."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, dict[str, object]]] = []
        self._repeats: list[tuple[str, str]] = []

    def debug(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self._note("debug", event, repeats_of, fields)

    def info(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self._note("info", event, repeats_of, fields)

    def warning(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self._note("warning", event, repeats_of, fields)

    def error(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self._note("error", event, repeats_of, fields)

    def events(self, level: str) -> list[str]:
        return [event for each, event, _ in self.entries if each == level]

    def repeats_of(self, event: str) -> list[str]:
        """The `repeats_of` of each event of this name."""
        return [repeats for each, repeats in self._repeats if each == event]

    def _note(self, level: str, event: str, repeats_of: str, fields: dict[str, object]) -> None:
        self.entries.append((level, event, fields))
        self._repeats.append((event, repeats_of))


class Client(asyncio.Protocol):
    """One connection with one request at a time."""

    def __init__(self) -> None:
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._answers: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            self._answers.put_nowait(bytes(frame))

    def connection_lost(self, exc: Exception | None) -> None:
        self._answers.put_nowait(None)

    async def ask(self, request: Any, version: int | None = None) -> Any:
        """The response to a request, by default in the newest version."""
        api = _api_of(request)
        version = api.versions[1] if version is None else version
        frame = await self.exchange(encoded(request, version))
        return decode_response(frame, api, version)

    async def send(self, request: Any, version: int) -> None:
        """Sends a request without waiting for a response."""
        await self.send_bytes(encoded(request, version))

    async def send_bytes(self, framed: bytes) -> None:
        """The same for encoded bytes."""
        if self._transport is None:
            raise ConnectionError("not connected")
        self._transport.write(framed)

    async def exchange(self, framed: bytes) -> bytes:
        """The frame of the response to these bytes. ConnectionError if the broker disconnects."""
        await self.send_bytes(framed)
        return await self.next_frame()

    async def next_frame(self) -> bytes:
        """The frame of the next response. ConnectionError if the broker disconnects."""
        answer = await self._answers.get()
        if answer is None:
            raise ConnectionError("the broker has closed the connection")
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Machine:
    """The disk, the clock and the host of a broker, which survive its restarts."""

    def __init__(
        self,
        seed: int = 0,
        *,
        capacity_bytes: int = 1 << 30,
        stores: StoreFactory = EMBEDDED,
        host: str = HOST,
        beside: "Machine | None" = None,
    ) -> None:
        """`beside` another machine, it shares its clock and network."""
        self.clock = beside.clock if beside else SimClock()
        self.entropy = ChosenIds(seed)
        self.disk = SimDisk(seed, capacity_bytes, clock=self.clock)
        self.network = beside.network if beside else SimNetwork(seed)
        self.net = self.network.host(host)
        self._stores = stores
        self._host = host
        self.notes = Notes()
        self.files: SimFiles | None = None
        # Of the last node.
        self.workers: SimWorkers
        self.threads: SimThreads

    def node(self, **settings: str) -> Node:
        """A broker that is not started. Settings are named with `_` for `.`."""
        given = {
            "log.dirs": "/data",
            "listeners": f"PLAINTEXT://0.0.0.0:{PORT}",
            "ottla.disk.reserve.bytes": "0",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        if self._stores.is_shared and "listeners" not in settings:
            # Other brokers must be able to reach it.
            given.setdefault("advertised.listeners", f"PLAINTEXT://{self._host}:{PORT}")
        self.files = self.disk.process()
        self.threads = SimThreads(self.entropy.fork("threads"))
        entropy = self.entropy.fork("workers")
        self.workers = SimWorkers(self.disk.process, self.clock, entropy)
        seams = Seams(self.clock, self.entropy, self.files, self.net, self.threads, self.workers)
        settings = load(given=given, environment={}, file=None)
        return Node(settings, seams, self.notes, stores=self._stores)

    async def client(self) -> Client:
        return cast("Client", await self.net.connect(Client, self._host, PORT))

    @asynccontextmanager
    async def broker(self, **settings: str) -> AsyncIterator[Client]:
        """A client of a broker that runs inside the context, and must end without a fault."""
        async with self.running(**settings) as (client, _):
            yield client

    @asynccontextmanager
    async def running(self, **settings: str) -> AsyncIterator[tuple[Client, Node]]:
        """The same, with the node."""
        node = self.node(**settings)
        await node.start()
        client = await self.client()
        try:
            yield client, node
            if node.fault.done():
                raise node.fault.result()
        finally:
            client.close()
            await node.stop()


def with_broker(
    story: Callable[[Client], Coroutine[Any, Any, None]],
    *,
    machine: Machine | None = None,
    **settings: str,
) -> None:
    """Runs a story with one broker, from its start to its stop."""
    machine = machine or Machine()

    async def tell() -> None:
        async with machine.broker(**settings) as client:
            await story(client)

    run(tell(), clock=machine.clock)


def new_topic(
    name: str,
    partitions: int = 1,
    *,
    factor: int = 1,
    configs: dict[str, str | None] | None = None,
    assignments: dict[int, tuple[int, ...]] | None = None,
) -> Topic:
    return Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(
            Assignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ),
        configs=tuple(Config(name=key, value=value) for key, value in (configs or {}).items()),
    )


async def create(client: Client, *topics: Topic) -> Any:
    """Creates topics, which must all succeed; the results."""
    response = await client.ask(CreateTopicsRequest(topics=topics))
    failed = [result for result in response.topics if result.error_code]
    if failed:
        raise AssertionError(failed)
    return response.topics


def encoded(request: Any, version: int) -> bytes:
    """An encoded request with its length."""
    parts = encode_request(7, _api_of(request), version, request, "tests")
    return b"".join(bytes(cast("bytes", part)) for part in parts)


def _api_of(request: object) -> Api:
    return next(api for api in APIS.values() if api.request is type(request))
