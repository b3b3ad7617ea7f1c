"""A client's connection to a simulated broker, which holds the broker to one reply per request."""

import asyncio
from collections import deque
from typing import Any, NamedTuple, cast

from ottla.protocol.exchange import decode_correlation_id, decode_response, encode_request
from ottla.protocol.framing import FrameReader
from ottla.protocol.messages import APIS, Api
from tests.sim.seams.net import SimNet

FRAME_BYTES_MAX = 100 << 20
REPLY_TIMEOUT_S = 8.0

_API_OF = {api.request: api for api in APIS.values()}


class Expected(NamedTuple):
    """A reply that is due."""

    correlation_id: int
    api: Api
    version: int
    reply: asyncio.Future[Any]


class RequestLine(asyncio.Protocol):
    """Requests may be pipelined."""

    def __init__(self) -> None:
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self._expected: deque[Expected] = deque()
        self._sent = 0
        self._transport: asyncio.Transport | None = None
        self._is_lost = False

    @classmethod
    async def dial(cls, net: SimNet, host: str, port: int) -> "RequestLine":
        """A new connection. OSError or TimeoutError if nobody answers."""
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            return cast("RequestLine", await net.connect(cls, host, port))

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            self._take(bytes(frame))

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._fail(ConnectionError("the connection is lost"))

    def send(
        self, request: object, version: int, *, is_answered: bool = True
    ) -> asyncio.Future[Any]:
        """The future reply; ConnectionError if the connection is lost before it comes."""
        reply = asyncio.get_running_loop().create_future()
        self._sent += 1
        api = _API_OF[type(request)]
        if self._is_lost or self._transport is None:
            raise ConnectionError("the connection is lost")
        parts = encode_request(self._sent, api, version, request, "simulation")
        self._transport.write(b"".join(bytes(cast("bytes", part)) for part in parts))
        if is_answered:
            self._expected.append(Expected(self._sent, api, version, reply))
        return reply

    async def ask(self, request: object, version: int) -> Any:
        """The reply. TimeoutError if it takes too long."""
        return await self.wait_for(self.send(request, version))

    async def wait_for(self, reply: asyncio.Future[Any]) -> Any:
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            return await reply

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _take(self, frame: bytes) -> None:
        correlation_id = decode_correlation_id(frame)
        if not self._expected:
            raise AssertionError(f"a reply to nothing that was asked: {correlation_id}")
        expected = self._expected.popleft()
        if correlation_id != expected.correlation_id:
            fault = f"a reply to request {correlation_id} where {expected.correlation_id} is due"
            self._expected.appendleft(expected)
            self._fail(AssertionError(fault))
            return
        if not expected.reply.done():
            expected.reply.set_result(decode_response(frame, expected.api, expected.version))

    def _fail(self, error: Exception) -> None:
        while self._expected:
            reply = self._expected.popleft().reply
            if not reply.done():
                reply.set_exception(error)
                # Perhaps nobody waits for it any more, which is no fault.
                reply.exception()
