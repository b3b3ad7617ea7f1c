"""A connection to one broker: the asyncio shell around `client.wire.in_flight`."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from ottla.address import Address
from ottla.client.errors import ConnectionLost, TimedOut, unreachable_error
from ottla.client.options import ClientOptions
from ottla.client.wire.in_flight import EncodeRequest, SentRequest, new_in_flight_requests
from ottla.client.wire.versions import API_VERSIONS, versions_request
from ottla.errors import PeerError
from ottla.protocol.messages import Api
from ottla.seams.deadline import Deadline
from ottla.seams.net import Net


class Connection(asyncio.Protocol):
    """A connection, made by `connect`. Concurrent requests are allowed.

    A request that times out ends the connection, since later responses would wait behind it.
    """

    def __init__(self, address: Address, options: ClientOptions) -> None:
        self.address = address
        self._options = options
        self._in_flight = new_in_flight_requests(options)
        # A request holds a slot until its response arrives, even if its caller was cancelled.
        self._slots = asyncio.Semaphore(options.max_in_flight_requests_per_connection)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._transport: asyncio.Transport | None = None
        self._end: ConnectionLost | None = None
        # Of the encoded request in flight.
        self._deadline = Deadline(self._time_out)

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._end is None

    def speaks(self, api: Api) -> bool:
        """Whether the broker and this client have a common version of this API."""
        return self._in_flight.versions is not None and self._in_flight.versions.speaks(api)

    @property
    def offered_versions(self) -> Mapping[int, tuple[int, int]]:
        """The first and the last version of each API that the broker offers, by its key."""
        versions = self._in_flight.versions
        return {} if versions is None else versions.offered

    async def ask(
        self, request: object, *, version_max: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """The response to a request. Without a response (acks=0): None, when the request is sent.

        TimedOut, ConnectionLost or UnsupportedByBroker.
        """
        if timeout_ms is None:
            timeout_ms = self._options.request_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1e3):
                return await self._ask(request, version_max=version_max)
        except TimeoutError:
            asked = type(request).__name__.removesuffix("Request")
            error = TimedOut(f"{self.address} did not answer {asked} within {timeout_ms} ms")
            self._finish(ConnectionLost(f"given up, since {error}"))
            raise error from None

    async def negotiate(self) -> None:
        """Asks for the broker's versions. The first request on a connection."""
        version: int | None = API_VERSIONS.versions[1]
        while version is not None:
            response = await self._ask(versions_request(), version=version)
            version = self._in_flight.negotiate(response, version)

    def highest_version(self, api: Api) -> int:
        """The highest version of an API that the broker and this client have in common.

        UnsupportedByBroker if there is none.
        """
        if self._in_flight.versions is None:
            raise RuntimeError("what the broker speaks is not known yet")
        return self._in_flight.versions.highest(api)

    def ask_encoded(
        self, api: Api, version: int, encode: EncodeRequest, timeout_ms: int
    ) -> "asyncio.Future[memoryview]":
        """The frame of the response to a request that the caller encodes, without its length.

        As `ask`, but much cheaper, for a caller that has one small request in flight at a time.
        ConnectionLost, also after the timeout.
        """
        if self._end is not None or self._transport is None:
            raise ConnectionLost(str(self._end))
        correlation_id, frame = self._in_flight.send_encoded(api, version, encode)
        self._transport.write(frame)
        future = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        self._deadline.set(timeout_ms / 1e3)
        return future

    def close(self) -> None:
        """Closes the connection. Requests in flight fail with ConnectionLost. Idempotent."""
        self._finish(ConnectionLost(f"the connection to {self.address} was closed"))

    async def _ask(
        self, request: object, *, version: int | None = None, version_max: int | None = None
    ) -> Any:
        await self._slots.acquire()
        try:
            await self._may_write.wait()
            sent = self._send(request, version, version_max)
        except BaseException:
            self._slots.release()
            raise
        if not sent.expects_response:
            self._slots.release()
            await self._wait_until_sent()
            return None
        future = asyncio.get_running_loop().create_future()
        self._waiting[sent.correlation_id] = future
        return await future

    async def _wait_until_sent(self) -> None:
        """Waits until the kernel has the bytes, which it sends even after a close."""
        await self._may_write.wait()
        if self._end is not None:
            raise ConnectionLost(str(self._end))

    def _send(self, request: object, version: int | None, version_max: int | None) -> SentRequest:
        """Checks and writes without an await in between."""
        if self._end is not None:
            raise ConnectionLost(str(self._end))
        sent = self._in_flight.send(request, version=version, version_max=version_max)
        # Clients send bytes. Only brokers send file slices.
        parts = cast("list[bytes]", sent.parts)
        cast("asyncio.Transport", self._transport).writelines(parts)
        return sent

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Pauses writes as soon as bytes are buffered, which bounds the buffer.
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        try:
            for correlation_id, response in self._in_flight.receive(data):
                if isinstance(response, memoryview):
                    # Of an encoded request, which holds no slot.
                    self._deadline.clear()
                else:
                    self._slots.release()
                future = self._waiting.pop(correlation_id)
                if not future.done():
                    future.set_result(response)
        except PeerError as error:
            self._finish(ConnectionLost(f"{self.address} sent what is no answer: {error}"))

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {exc}" if exc else ""
        self._finish(ConnectionLost(f"{self.address} closed the connection{reason}"))

    def _time_out(self) -> None:
        self._finish(ConnectionLost(f"given up, since {self.address} did not answer in time"))

    def _finish(self, error: ConnectionLost) -> None:
        """Ends the connection. Keeps the first reason."""
        if self._end is not None:
            return
        self._end = error
        self._deadline.close()
        if self._transport is not None:
            self._transport.abort()
        for future in self._waiting.values():
            self._slots.release()
            if not future.done():
                future.set_exception(ConnectionLost(str(error)))
        self._waiting.clear()
        # Wakes the writers, which then see that the connection has ended.
        self._may_write.set()


async def connect(net: Net, address: Address, options: ClientOptions) -> Connection:
    """Connects to a broker and negotiates versions.

    Unreachable if there is no connection or no broker answers; UnsupportedByBroker.
    """
    connection = Connection(address, options)
    timeout_ms = options.socket_connection_setup_timeout_ms
    try:
        async with asyncio.timeout(timeout_ms / 1e3):
            await net.connect(lambda: connection, *address)
            await connection.negotiate()
    except (ConnectionLost, OSError) as error:
        connection.close()
        raise unreachable_error(address, error, timeout_ms) from None
    except BaseException:
        connection.close()
        raise
    return connection
