"""Sends requests to the controller, whichever broker that is, until they are answered.

The controller is the one that the image names. A request is sent again after NOT_CONTROLLER, a lost
connection or a timeout, so the controller may carry it out twice. The callers' requests allow that:
what was done the first time is refused the second time (TOPIC_ALREADY_EXISTS), or done again.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.address import Address
from ottla.broker.event_log import Logger
from ottla.client.connection.connection import Connection, connect
from ottla.client.errors import ClientError, ConnectionLost
from ottla.client.options import ClientOptions
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metadata.store import Entry
from ottla.seams.entropy import Entropy
from ottla.seams.net import Net

BACKOFF_MS = 50
BACKOFF_MS_MAX = 1_000
# Requests that wait for their answer.
WAITING_MAX = 1_000
WAITING_BYTES_MAX = 64 << 20
IN_FLIGHT_MAX = 100
# A request on which the controller ends the connection so often may be the reason for it.
LOST_MAX = 10
# The time in which a former controller may still answer.
FORMER_CONTROLLER_S = 1.0


class ControllerIsHere(Exception):
    """This broker is the controller: the caller carries out the request itself."""


class ControllerAddress(NamedTuple):
    """The controller, and its address on the inter-broker listener."""

    broker_id: int
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelParts:
    """The parts of a node that a channel uses."""

    image: Callable[[], Image]
    # Whether this broker is the controller.
    is_controller: Callable[[], bool]
    node_id: int
    # The name of the inter-broker listener.
    listener: str
    net: Net
    entropy: Entropy
    logger: Logger
    spawn: Callable[[Coroutine[Any, Any, Any], str], None]
    request_timeout_ms: int


class ControllerChannel:
    """One connection to the controller. Any number of callers may ask at once, within limits."""

    def __init__(self, parts: ChannelParts) -> None:
        self._parts = parts
        self._options = ClientOptions(
            client_id=f"broker-{parts.node_id}",
            request_timeout_ms=parts.request_timeout_ms,
            max_in_flight_requests_per_connection=IN_FLIGHT_MAX,
        )
        # The requests of callers, and those that are sent: a caller may have given up meanwhile.
        self._waiting = _Load()
        self._sent = _Load()
        self._connection: Connection | None = None
        # Whom the connection, or the one that is being opened, is to.
        self._target: ControllerAddress | None = None
        self._opening: asyncio.Future[Connection] | None = None
        # Connections to former controllers, with the timers that close them.
        self._former: dict[Connection, asyncio.TimerHandle] = {}
        self._is_closed = False

    async def ask(self, request: object, *, timeout_ms: int, held_bytes: int = 0) -> Any:
        """The controller's response, which has an error code other than NOT_CONTROLLER.

        ControllerIsHere if this broker is the controller. PeerError REQUEST_TIMED_OUT if there is
        no answer within `timeout_ms`, or too many requests wait: the request may have been carried
        out. `held_bytes` is the request's size, if it is not small.
        """
        if self._waiting.is_full(held_bytes) or self._sent.is_full(held_bytes):
            raise _timed_out("Too many requests wait for the controller.")
        try:
            with self._waiting.holding(held_bytes):
                async with asyncio.timeout(timeout_ms / 1e3):
                    return await self._ask_until_answered(request, held_bytes)
        except TimeoutError:
            raise _timed_out("The controller has not answered in time.") from None

    def follow(self, image: Image, entry: Entry) -> None:  # noqa: ARG002 - a subscriber's signature
        """Leaves a former controller, which may be out of reach without a word."""
        if self._target is not None and self._find(image) != self._target:
            self._leave()

    def close(self) -> None:
        """Ends the connections. Whoever asks is to be cancelled by its owner."""
        self._is_closed = True
        self._leave()
        for connection, timer in self._former.items():
            timer.cancel()
            connection.close()
        self._former.clear()

    async def _ask_until_answered(self, request: object, held_bytes: int) -> Any:
        losses = failures = 0
        while True:
            if self._parts.is_controller():
                raise ControllerIsHere
            try:
                connection = await self._connected()
                if connection is not None:
                    response = await self._exchange(connection, request, held_bytes)
                    if response.error_code != ErrorCode.NOT_CONTROLLER:
                        return response
            except ClientError as error:
                self._report(error)
                losses += isinstance(error, ConnectionLost)
                if losses >= LOST_MAX:
                    raise _timed_out("The controller ends the connection.") from error
            await asyncio.sleep(self._backoff_s(failures))
            failures += 1

    async def _exchange(self, connection: Connection, request: object, held_bytes: int) -> Any:
        """The response on this connection. ClientError."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._parts.spawn(self._send(connection, request, held_bytes, answer), "ask the controller")
        return await answer

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
                    self._report(error)
            else:
                if not answer.done():
                    answer.set_result(response)

    async def _connected(self) -> Connection | None:
        """An open connection; None if no controller is known. ClientError."""
        target = self._find(self._parts.image())
        if target is None:
            self._report(f"no controller with a listener {self._parts.listener} is known")
            return None
        if target != self._target:
            self._leave()
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if self._opening is None:
            self._target = target
            self._opening = asyncio.get_running_loop().create_future()
            self._parts.spawn(self._open(target, self._opening), "connect to the controller")
        # Others wait for the same connection, and may have more time.
        return await asyncio.shield(self._opening)

    async def _open(self, target: ControllerAddress, opening: "asyncio.Future[Connection]") -> None:
        try:
            connection = await connect(self._parts.net, target.address, self._options)
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
                self._connection = connection
            else:
                # There was another controller meanwhile.
                self._close_later(connection)
        finally:
            if self._opening is opening:
                self._opening = None

    def _find(self, image: Image) -> ControllerAddress | None:
        """The controller that the image names, if it is another broker with an address."""
        controller_id = image.controller_id
        if controller_id is None or controller_id == self._parts.node_id:
            return None
        broker = image.brokers.get(controller_id)
        if broker is None or not broker.is_live:
            return None
        for endpoint in broker.endpoints:
            if endpoint.listener == self._parts.listener:
                return ControllerAddress(controller_id, Address(endpoint.host, endpoint.port))
        return None

    def _leave(self) -> None:
        """Opens another connection for the next request."""
        if self._connection is not None:
            self._close_later(self._connection)
        self._connection = self._opening = self._target = None

    def _close_later(self, connection: Connection) -> None:
        def end() -> None:
            connection.close()
            self._former.pop(connection, None)

        timer = asyncio.get_running_loop().call_later(FORMER_CONTROLLER_S, end)
        self._former[connection] = timer

    def _backoff_s(self, failures: int) -> float:
        """Doubles with each failure, and varies by a fifth, so that brokers do not ask in step."""
        backoff_ms = min(BACKOFF_MS_MAX, BACKOFF_MS << min(failures, 10))
        return (backoff_ms * 4 // 5 + self._parts.entropy.below(backoff_ms * 2 // 5)) / 1e3

    def _report(self, why: object) -> None:
        self._parts.logger.warning("controller not reached", repeats_of=str(why), error=str(why))


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


def _timed_out(why: str) -> PeerError:
    return PeerError(ErrorCode.REQUEST_TIMED_OUT, why)
