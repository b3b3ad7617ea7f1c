"""Fake brokers with scripted responses, on any network."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.address import Address
from ottla.client.options import ClientOptions
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.exchange import UnsupportedVersion, decode_request, encode_response
from ottla.protocol.framing import FrameReader
from ottla.protocol.messages import APIS, metadata
from ottla.protocol.messages.api_versions import ApiVersionsResponse, VersionRange
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.protocol.primitives import Uuid
from ottla.seams.net import Net
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.net import SimNetwork
from tests.sim.seams.wire import Conditions

CALM = Conditions(split_rate=0.0, gather_rate=0.0)
PORT = 9092
TOPIC_ID = Uuid(bytes(range(16)))

# Takes the request and its version; None for no response.
Answer = Callable[[Any, int], Any]


class FakeConnection(asyncio.Protocol):
    def __init__(self, broker: "FakeBroker") -> None:
        self._broker = broker
        self._frames = FrameReader(100 << 20)
        self._last: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._broker.connections.append(self)

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        while (frame := self._frames.next_frame()) is not None:
            self._last = asyncio.get_running_loop().create_task(
                self._answer(bytes(frame), self._last)
            )

    async def _answer(self, frame: bytes, before: asyncio.Task[None] | None) -> None:
        """Sends responses in the order of requests, however long each takes."""
        parts = await self._broker.answer(frame)
        if before is not None:
            await before
        if parts is not None and not self.transport.is_closing():
            self.transport.writelines(parts)


class FakeBroker:
    """Answers each API with a test's function, in the versions that the test gives."""

    def __init__(self, node_id: int, name: str) -> None:
        self.node_id = node_id
        self.name = name
        self.answers: dict[str, Answer] = {"ApiVersions": self._offer}
        self.versions: dict[str, tuple[int, int]] = {}
        # The received requests: API, version, request.
        self.asked: list[tuple[str, int, Any]] = []
        self.connections: list[FakeConnection] = []

    @property
    def address(self) -> Address:
        return Address(self.name, PORT)

    async def listen(self, net: Net) -> None:
        self.listener = await net.listen(lambda: FakeConnection(self), "", PORT)

    async def stop(self) -> None:
        await self.listener.close()
        for connection in self.connections:
            connection.transport.abort()

    def asked_for(self, name: str) -> list[tuple[int, Any]]:
        return [(version, request) for api, version, request in self.asked if api == name]

    async def answer(self, frame: bytes) -> list[Any] | None:
        try:
            header, api, request = decode_request(frame)
        except UnsupportedVersion as error:
            raise AssertionError(f"asked in a version that nobody has: {error}") from None
        version = header.request_api_version
        self.asked.append((api.name, version, request))
        response = self.answers[api.name](request, version)
        if isinstance(response, Awaitable):
            response = await response
        if response is None:
            return None
        if api.name == "ApiVersions" and response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
        return encode_response(header.correlation_id, api, version, response)

    def _offer(self, request: object, version: int) -> ApiVersionsResponse:
        by_name = {api.name: api for api in APIS.values()}
        ranges = {name: self.versions.get(name, by_name[name].advertised) for name in self.answers}
        first, last = ranges["ApiVersions"]
        return ApiVersionsResponse(
            error_code=0 if first <= version <= last else ErrorCode.UNSUPPORTED_VERSION,
            api_keys=tuple(
                VersionRange(api_key=by_name[name].key, min_version=low, max_version=high)
                for name, (low, high) in ranges.items()
            ),
        )


class FakeCluster:
    """Brokers `b1`, `b2`, ... with the same `leaders` and `controller`."""

    def __init__(self, brokers: int = 1, conditions: Conditions = CALM) -> None:
        self.network = SimNetwork(conditions=conditions)
        self.brokers = {
            number: FakeBroker(number, f"b{number}") for number in range(1, brokers + 1)
        }
        self.leaders: dict[str, list[int]] = {}
        self.controller = 1
        # Of every partition.
        self.replicas: tuple[int, ...] = (1,)
        self.in_sync: tuple[int, ...] = (1,)
        self.topic_id = TOPIC_ID
        for broker in self.brokers.values():
            broker.answers["Metadata"] = self._metadata

    async def __aenter__(self) -> "FakeCluster":
        for broker in self.brokers.values():
            await broker.listen(self.network.host(broker.name))
        return self

    async def __aexit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            await broker.stop()

    def router(self, *bootstrap: str, **options: int) -> Router:
        addresses = [Address(name, PORT) for name in bootstrap or ("b1",)]
        net = self.network.host("client")
        return Router(addresses, net=net, entropy=SimEntropy(0), options=ClientOptions(**options))

    def answer_everywhere(self, api: str, answer: Callable[[FakeBroker], Answer]) -> None:
        for broker in self.brokers.values():
            broker.answers[api] = answer(broker)

    def _metadata(self, request: Any, version: int) -> MetadataResponse:
        names = self.leaders if request.topics is None else [each.name for each in request.topics]
        return MetadataResponse(
            brokers=tuple(
                metadata.Broker(node_id=broker.node_id, host=broker.name, port=PORT)
                for broker in self.brokers.values()
            ),
            cluster_id="the-cluster",
            controller_id=self.controller,
            topics=tuple(self._topic(name) for name in names),
        )

    def _topic(self, name: str) -> metadata.Topic:
        if name not in self.leaders:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return metadata.Topic(error_code=code, name=name, partitions=())
        return metadata.Topic(
            error_code=0,
            name=name,
            topic_id=self.topic_id,
            partitions=tuple(
                metadata.Partition(
                    error_code=0 if leader > 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                    partition_index=number,
                    leader_id=leader,
                    leader_epoch=7,
                    replica_nodes=self.replicas,
                    isr_nodes=self.in_sync,
                )
                for number, leader in enumerate(self.leaders[name])
            ),
        )
