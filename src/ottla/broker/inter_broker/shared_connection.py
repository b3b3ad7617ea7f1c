"""One connection to another broker, which many callers share.

The first request opens it. When the broker has another address or epoch, the next request opens
another connection; the former one is closed a little later, since it may still bring answers.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.address import Address
from ottla.broker.event_log import Logger
from ottla.client.connection.connection import Connection, connect
from ottla.client.errors import ClientError
from ottla.client.options import ClientOptions
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.seams.entropy import Entropy
from ottla.seams.net import Net

# Requests that wait for their answer.
WAITING_MAX = 1_000
WAITING_BYTES_MAX = 64 << 20
IN_FLIGHT_MAX = 100
# The time in which a former connection may still bring answers.
FORMER_CONNECTION_S = 1.0


class Peer(NamedTuple):
    """Another broker, the epoch of its registration, and its inter-broker address."""

    broker_id: int
    broker_epoch: int
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelParts:
    """The parts of a node that channels to other brokers use."""

    image: Callable[[], Image]
    # Whether this broker is the controller.
    is_controller: Callable[[], bool]
    node_id: int
    # The name of the inter-broker listener.
    listener: str
    net: Net
    entropy: Entropy
    logger: Logger
    spawn: Callable[[Coroutine[Any, Any, Any], str], object]
    request_timeout_ms: int


def client_id_of(broker_id: int) -> str:
    """The client id of a broker's requests to other brokers."""
    return f"broker-{broker_id}"


def find_peer(image: Image, broker_id: int, listener: str) -> Peer | None:
    """The broker of the image, if it is live and has an address on this listener."""
    broker = image.brokers.get(broker_id)
    if broker is None or not broker.is_live:
        return None
    for endpoint in broker.endpoints:
        if endpoint.listener == listener:
            return Peer(broker_id, broker.epoch, Address(endpoint.host, endpoint.port))
    return None


class SharedConnection:
    """See the module. `name` is that of the other broker, for the names of tasks and for errors."""

    def __init__(self, parts: ChannelParts, name: str) -> None:
        self._parts = parts
        self._name = name
        self._options = ClientOptions(
            client_id=client_id_of(parts.node_id),
            request_timeout_ms=parts.request_timeout_ms,
            max_in_flight_requests_per_connection=IN_FLIGHT_MAX,
        )
        # The requests of callers, and those that are sent: a caller may have given up meanwhile.
        self._waiting = _Load()
        self._sent = _Load()
        self.connection: Connection | None = None
        # Whom the connection, or the one that is being opened, is to.
        self.peer: Peer | None = None
        self._opening: asyncio.Future[Connection] | None = None
        # Former connections, with the timers that close them.
        self._former: dict[Connection, asyncio.TimerHandle] = {}
        self._is_closed = False

    @contextmanager
    def holding(self, held_bytes: int) -> Iterator[None]:
        """Counts a caller's request. PeerError REQUEST_TIMED_OUT if too many wait."""
        if self._waiting.is_full(held_bytes) or self._sent.is_full(held_bytes):
            raise PeerError(
                ErrorCode.REQUEST_TIMED_OUT, f"Too many requests wait for {self._name}."
            )
        with self._waiting.holding(held_bytes):
            yield

    async def connected(self, peer: Peer) -> Connection:
        """An open connection to this peer. ClientError."""
        if peer != self.peer:
            self.leave()
        if self.connection is not None and self.connection.is_open:
            return self.connection
        if self._opening is None:
            self.peer = peer
            self._opening = asyncio.get_running_loop().create_future()
            self._parts.spawn(self._open(peer, self._opening), f"connect to {self._name}")
        # Others wait for the same connection, and may have more time.
        return await asyncio.shield(self._opening)

    async def exchange(self, connection: Connection, request: object, held_bytes: int) -> Any:
        """The response on this connection. ClientError."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._parts.spawn(self._send(connection, request, held_bytes, answer), f"ask {self._name}")
        return await answer

    def leave(self) -> None:
        """Opens another connection for the next request."""
        if self.connection is not None:
            self._close_later(self.connection)
        self.connection = self._opening = self.peer = None

    def close(self) -> None:
        """Ends the connections. Whoever asks is to be cancelled by its owner."""
        self._is_closed = True
        self.leave()
        for connection, timer in self._former.items():
            timer.cancel()
            connection.close()
        self._former.clear()

    def report(self, why: object) -> None:
        """Logs why there is no answer."""
        self._parts.logger.warning(f"{self._name} not reached", repeats_of=str(why), error=str(why))

    async def _send(
        self,
        connection: Connection,
        request: object,
        held_bytes: int,
        answer: "asyncio.Future[Any]",
    ) -> None:
        """Waits for the response even if nobody else does: without one in time the connection is
        ended, which callers with less time would never do."""
        with self._sent.holding(held_bytes):
            try:
                response = await connection.ask(request)
            except ClientError as error:
                if not answer.done():
                    answer.set_exception(error)
                else:
                    self.report(error)
            else:
                if not answer.done():
                    answer.set_result(response)

    async def _open(self, peer: Peer, opening: "asyncio.Future[Connection]") -> None:
        try:
            connection = await connect(self._parts.net, peer.address, self._options)
        except ClientError as error:
            opening.set_exception(error)
            # Marks it as retrieved: perhaps nobody waits any more.
            opening.exception()
        except BaseException:
            opening.cancel()
            raise
        else:
            opening.set_result(connection)
            if self._is_closed:
                connection.close()
            elif self._opening is opening:
                self.connection = connection
            else:
                # The peer has changed meanwhile.
                self._close_later(connection)
        finally:
            if self._opening is opening:
                self._opening = None

    def _close_later(self, connection: Connection) -> None:
        def end() -> None:
            connection.close()
            self._former.pop(connection, None)

        timer = asyncio.get_running_loop().call_later(FORMER_CONNECTION_S, end)
        self._former[connection] = timer


class _Load:
    """A number of requests and their size, with the limits of both."""

    def __init__(self) -> None:
        self._requests = 0
        self._bytes = 0

    def is_full(self, held_bytes: int) -> bool:
        """Whether there is no room for one more request."""
        return self._requests >= WAITING_MAX or self._bytes + held_bytes > WAITING_BYTES_MAX

    @contextmanager
    def holding(self, held_bytes: int) -> Iterator[None]:
        self._requests += 1
        self._bytes += held_bytes
        try:
            yield
        finally:
            self._requests -= 1
            self._bytes -= held_bytes
