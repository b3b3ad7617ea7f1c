"""Metrics and health over HTTP/1.1: GET or HEAD of /metrics, /health/live and /health/ready.

Three pages need no framework, which would add to every broker's start-up time and memory. The
server is an asyncio protocol on the broker's event loop, without threads or tasks. It writes the
metrics page in slices, one per turn of the loop, and no faster than the client reads.

A request with a body, a head above its limit or another method gets an error and is not read
further. A client that sends or reads too slowly is disconnected. At the connection limit a new
connection replaces the one that has waited longest, so that idle or slow clients cannot block a
probe or a scrape.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from ottla.broker.http.health import Health
from ottla.broker.http.request_head import BadRequest, HttpRequest, parse_head
from ottla.broker.http.response import HttpResponse, Page, error_page, health_page
from ottla.metrics.exposition import CONTENT_TYPE as METRICS_CONTENT_TYPE
from ottla.seams.net import Listener, Net

WRITE_BUFFER_BYTES_MAX = 64 << 10

_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of connections, sizes and times."""

    connections_max: int = 32
    head_bytes_max: int = 8 << 10
    # From connecting, or from a request's first byte, to the end of its head.
    head_timeout_s: float = 10.0
    # From the head to the last byte that the client reads.
    reply_timeout_s: float = 30.0
    # Between two requests; longer than the usual scrape interval of a minute.
    idle_timeout_s: float = 75.0


class HttpServer:
    """Serves a node's health and metrics on a listener of its own."""

    def __init__(
        self,
        net: Net,
        health: Health,
        metrics: Callable[[], Iterator[bytes]],
        limits: HttpLimits | None = None,
    ) -> None:
        """`metrics` returns the metrics page in small slices."""
        self.limits = limits if limits is not None else HttpLimits()
        self._net = net
        self._listener: Listener | None = None
        # Connections without a complete request, and those with a response under way. Dicts, since
        # they keep an order: the first is the oldest.
        self._waiting: dict[HttpConnection, None] = {}
        self._responding: dict[HttpConnection, None] = {}
        self._pages: dict[str, Callable[[], Page]] = {
            "/health/live": lambda: health_page(health.not_live(), health.warnings.reasons),
            "/health/ready": lambda: health_page(health.not_ready(), health.warnings.reasons),
            "/metrics": lambda: Page(
                HTTPStatus.OK, METRICS_CONTENT_TYPE, metrics(), is_whole=False
            ),
        }

    @property
    def connection_count(self) -> int:
        return len(self._waiting) + len(self._responding)

    async def start(self, host: str, port: int) -> int:
        """Opens the listener, and returns its port. OSError if the port is in use."""
        self._listener = await self._net.listen(lambda: HttpConnection(self), host, port)
        return self._listener.port

    async def close(self) -> None:
        """Closes the listener and all connections."""
        if self._listener is not None:
            await self._listener.close()
        for connection in [*self._waiting, *self._responding]:
            connection.abort()

    # Called by connections

    def waits(self, connection: "HttpConnection") -> None:
        """The connection waits for a request from now on.

        A new connection beyond the limit ends the one that has waited longest. If all have a
        response under way, it ends the one whose response takes longest.
        """
        is_new = connection not in self._responding
        if is_new and self.connection_count >= self.limits.connections_max:
            oldest = next(iter([*self._waiting, *self._responding]))
            self.forget(oldest)
            oldest.abort()
        self._responding.pop(connection, None)
        self._waiting[connection] = None

    def responds(self, connection: "HttpConnection") -> None:
        """The connection has a response under way from now on."""
        self._waiting.pop(connection, None)
        self._responding[connection] = None

    def forget(self, connection: "HttpConnection") -> None:
        self._waiting.pop(connection, None)
        self._responding.pop(connection, None)

    def answer(self, request: HttpRequest) -> Page:
        page = self._pages.get(request.path)
        if page is None:
            return error_page(HTTPStatus.NOT_FOUND, f"there is {', '.join(self._pages)}")
        if request.method not in ("GET", "HEAD"):
            return error_page(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        return page()


class HttpConnection(asyncio.Protocol):
    """One client's connection. Reads nothing while a response is under way."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        # The bytes of it that were searched for the end of the head.
        self._searched_bytes = 0
        # The response under way; None while waiting for a request.
        self._response: HttpResponse | None = None
        self._may_write = True
        self._deadline: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self._set_deadline(self._limits.head_timeout_s)
        self._server.waits(self)

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        if not self._received and self._response is None:
            self._set_deadline(self._limits.head_timeout_s)
        self._received += data
        self._serve()

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._loop.call_soon(self._write_slice)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._response = None
        self._received.clear()
        self._server.forget(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        self._transport.abort()

    # One request after another

    def _serve(self) -> None:
        if self._response is not None:
            return
        try:
            request = self._take_request()
        except BadRequest as refusal:
            self._refuse(refusal)
            return
        if request is not None:
            page = self._server.answer(request)
            # The body that another method may have is not read.
            keep_alive = request.keep_alive and page.status is not HTTPStatus.METHOD_NOT_ALLOWED
            self._begin(HttpResponse(page, request, keep_alive=keep_alive))

    def _take_request(self) -> HttpRequest | None:
        """The next request, if its head is complete. BadRequest."""
        end = self._received.find(_END_OF_HEAD, self._searched_bytes)
        head_bytes = end if end >= 0 else len(self._received)
        if head_bytes > self._limits.head_bytes_max:
            raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too long")
        if end < 0:
            # Each byte is searched once, also if the head arrives byte by byte. Its end may be
            # split between reads.
            self._searched_bytes = max(0, len(self._received) - len(_END_OF_HEAD) + 1)
            return None
        head = bytes(self._received[:end])
        del self._received[: end + len(_END_OF_HEAD)]
        self._searched_bytes = 0
        return parse_head(head)

    def _refuse(self, refusal: BadRequest) -> None:
        page = error_page(refusal.status, str(refusal))
        self._received.clear()
        self._begin(HttpResponse(page, None, keep_alive=False))

    def _begin(self, response: HttpResponse) -> None:
        self._response = response
        self._server.responds(self)
        self._transport.pause_reading()
        self._set_deadline(self._limits.reply_timeout_s)
        self._write_slice()

    def _write_slice(self) -> None:
        """Writes one slice per turn of the event loop, while the client reads."""
        if self._response is None or not self._may_write or self._transport.is_closing():
            return
        try:
            piece = next(self._response.pieces, None)
        except Exception:
            self._transport.abort()
            raise
        if piece is None:
            self._end(self._response)
            return
        self._transport.write(piece)
        if self._may_write:
            self._loop.call_soon(self._write_slice)

    def _end(self, response: HttpResponse) -> None:
        self._response = None
        if not response.keep_alive:
            # The deadline stays: a client that reads nothing is disconnected.
            self._transport.close()
            return
        self._server.waits(self)
        self._set_deadline(
            self._limits.head_timeout_s if self._received else self._limits.idle_timeout_s
        )
        self._transport.resume_reading()
        self._serve()

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(seconds, self._transport.abort)
