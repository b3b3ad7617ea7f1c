"""A connection to one broker: the asyncio shell around `client.wire.in_flight`."""

import asyncio
from typing import Any, cast

from ottla.address import Address
from ottla.client.errors import ConnectionLost, TimedOut, why_unreachable
from ottla.client.options import ClientOptions
from ottla.client.wire.in_flight import Sent, wire_of
from ottla.client.wire.versions import API_VERSIONS, versions_request
from ottla.errors import PeerError
from ottla.protocol.messages import Api
from ottla.seams.net import Net


class Connection(asyncio.Protocol):
    """Made by `connect`. Many may ask at once; each gets its own answer.

    After a question that was not answered in time nothing more is asked here: whatever came later
    would have waited behind it.
    """

    def __init__(self, address: Address, options: ClientOptions) -> None:
        self.address = address
        self._options = options
        self._wire = wire_of(options)
        # A question holds a slot until its answer is there, even if nobody waits for it any more.
        self._slots = asyncio.Semaphore(options.max_in_flight_requests_per_connection)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._transport: asyncio.Transport | None = None
        self._end: ConnectionLost | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._end is None

    def speaks(self, api: Api) -> bool:
        """Whether the broker offers this API in a version that is spoken here."""
        return self._wire.versions is not None and self._wire.versions.speaks(api)

    async def ask(
        self, request: object, *, version_max: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """The response to a request; None, once it is on its way, to one that nobody answers.

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
        """Asks the broker what it speaks: the first thing on a connection."""
        version: int | None = API_VERSIONS.versions[1]
        while version is not None:
            response = await self._ask(versions_request(), version=version)
            version = self._wire.negotiate(response, version)

    def close(self) -> None:
        """Idempotent. What still waits for an answer is told that there will be none."""
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
        if not sent.is_answered:
            self._slots.release()
            await self._handed_over()
            return None
        coming = asyncio.get_running_loop().create_future()
        self._waiting[sent.correlation_id] = coming
        return await coming

    async def _handed_over(self) -> None:
        """What was written is with the kernel, which sends it even if we close now."""
        await self._may_write.wait()
        if self._end is not None:
            raise ConnectionLost(str(self._end))

    def _send(self, request: object, version: int | None, version_max: int | None) -> Sent:
        """Checks and writes in one step: nobody comes between."""
        if self._end is not None:
            raise ConnectionLost(str(self._end))
        sent = self._wire.send(request, version=version, version_max=version_max)
        # What a client sends lies in memory; a slice of a file is a broker's alone.
        parts = cast("list[bytes]", sent.parts)
        cast("asyncio.Transport", self._transport).writelines(parts)
        return sent

    # What the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Nothing is written while something waits: what waits is one round of requests at most.
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        try:
            for correlation_id, response in self._wire.receive(data):
                self._slots.release()
                coming = self._waiting.pop(correlation_id)
                if not coming.done():
                    coming.set_result(response)
        except PeerError as error:
            self._finish(ConnectionLost(f"{self.address} sent what is no answer: {error}"))

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {exc}" if exc else ""
        self._finish(ConnectionLost(f"{self.address} closed the connection{reason}"))

    def _finish(self, error: ConnectionLost) -> None:
        """Ends the connection, for the first reason that there was."""
        if self._end is not None:
            return
        self._end = error
        if self._transport is not None:
            self._transport.abort()
        for coming in self._waiting.values():
            self._slots.release()
            if not coming.done():
                coming.set_exception(ConnectionLost(str(error)))
        self._waiting.clear()
        # Whoever waits to write finds out that there is nothing to write to.
        self._may_write.set()


async def connect(net: Net, address: Address, options: ClientOptions) -> Connection:
    """A connection on which it is known what the broker speaks.

    Unreachable if nobody is there or no broker answers; UnsupportedByBroker.
    """
    connection = Connection(address, options)
    timeout_ms = options.socket_connection_setup_timeout_ms
    try:
        async with asyncio.timeout(timeout_ms / 1e3):
            await net.connect(lambda: connection, *address)
            await connection.negotiate()
    except (ConnectionLost, OSError) as error:
        connection.close()
        raise why_unreachable(address, error, timeout_ms) from None
    except BaseException:
        connection.close()
        raise
    return connection
