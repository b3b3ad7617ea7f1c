"""Metrics and health over HTTP/1.1: GET or HEAD of /metrics, /health/live and /health/ready.

Three pages need no framework: one would add to every broker's start-up time and memory. It is an
asyncio protocol on the broker's own loop, with no thread and no task. A page of metrics is written
slice by slice, a turn of the loop for each, and no faster than the client reads.

A request with a body, a head above its limit or another method is answered with an error and not
read further. A client that sends or reads too slowly is cut off. When all connections are taken, a
new one replaces the one that has waited longest, so that idle or slow clients cannot lock out a
probe or a scrape.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from ottla.broker.http.health import Health
from ottla.broker.http.request_head import BadRequest, Request, parse_head
from ottla.broker.http.response import Page, Reply, error_page, health_page
from ottla.metrics.exposition import CONTENT_TYPE as METRICS_CONTENT_TYPE
from ottla.seams.net import Listener, Net

WRITE_BUFFER_BYTES_MAX = 64 << 10

_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What a client may take of us."""

    connections_max: int = 32
    head_bytes_max: int = 8 << 10
    # From connecting, or from a request's first byte, to the end of its head.
    head_timeout_s: float = 10.0
    # From the head to the last byte that the client takes.
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
        """`metrics` gives the page in slices, each of them small."""
        self.limits = limits if limits is not None else HttpLimits()
        self._net = net
        self._listener: Listener | None = None
        # Connections without a whole request, and those being answered, each since when. Dicts
        # for their order: the first is the oldest.
        self._waiting: dict[HttpConnection, None] = {}
        self._answering: dict[HttpConnection, None] = {}
        self._pages: dict[str, Callable[[], Page]] = {
            "/health/live": lambda: health_page(health.not_live(), health.warnings.reasons),
            "/health/ready": lambda: health_page(health.not_ready(), health.warnings.reasons),
            "/metrics": lambda: Page(
                HTTPStatus.OK, METRICS_CONTENT_TYPE, metrics(), is_whole=False
            ),
        }

    @property
    def connection_count(self) -> int:
        return len(self._waiting) + len(self._answering)

    async def start(self, host: str, port: int) -> int:
        """Listens; the port in force. OSError if it is taken."""
        self._listener = await self._net.listen(lambda: HttpConnection(self), host, port)
        return self._listener.port

    async def close(self) -> None:
        """Takes no more connections and ends those that stand."""
        if self._listener is not None:
            await self._listener.close()
        for connection in [*self._waiting, *self._answering]:
            connection.abort()

    # What connections say

    def waits(self, connection: "HttpConnection") -> None:
        """A connection waits for a request from now on.

        A new one beyond the limit ends the one that has waited longest; where all are being
        answered, the one whose answer takes longest.
        """
        is_new = connection not in self._answering
        if is_new and self.connection_count >= self.limits.connections_max:
            oldest = next(iter([*self._waiting, *self._answering]))
            self.forget(oldest)
            oldest.abort()
        self._answering.pop(connection, None)
        self._waiting[connection] = None

    def is_answered(self, connection: "HttpConnection") -> None:
        """A connection's request is being answered from now on."""
        self._waiting.pop(connection, None)
        self._answering[connection] = None

    def forget(self, connection: "HttpConnection") -> None:
        self._waiting.pop(connection, None)
        self._answering.pop(connection, None)

    def answer(self, request: Request) -> Page:
        page = self._pages.get(request.path)
        if page is None:
            return error_page(HTTPStatus.NOT_FOUND, f"there is {', '.join(self._pages)}")
        if request.method not in ("GET", "HEAD"):
            return error_page(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        return page()


class HttpConnection(asyncio.Protocol):
    """One client: reads a request, writes its answer, and so on. Reads nothing meanwhile."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        # How much of it was searched for the end of a head.
        self._searched_bytes = 0
        # What is being sent; None while a request is awaited.
        self._reply: Reply | None = None
        self._may_write = True
        self._deadline: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self._set_deadline(self._limits.head_timeout_s)
        self._server.waits(self)

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        if not self._received and self._reply is None:
            self._set_deadline(self._limits.head_timeout_s)
        self._received += data
        self._serve()

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._loop.call_soon(self._write_slice)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._reply = None
        self._received.clear()
        self._server.forget(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def abort(self) -> None:
        self._transport.abort()

    # One request after another.

    def _serve(self) -> None:
        if self._reply is not None:
            return
        try:
            request = self._take_request()
        except BadRequest as refusal:
            self._refuse(refusal)
            return
        if request is not None:
            page = self._server.answer(request)
            # Whatever else a client may send with another method is not read.
            keep_alive = request.keep_alive and page.status is not HTTPStatus.METHOD_NOT_ALLOWED
            self._begin(Reply(page, request, keep_alive=keep_alive))

    def _take_request(self) -> Request | None:
        """The next request, if all of its head is here. BadRequest."""
        end = self._received.find(_END_OF_HEAD, self._searched_bytes)
        head_bytes = end if end >= 0 else len(self._received)
        if head_bytes > self._limits.head_bytes_max:
            raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too long")
        if end < 0:
            # Byte by byte or at once, a head is searched once; its end may be cut anywhere.
            self._searched_bytes = max(0, len(self._received) - len(_END_OF_HEAD) + 1)
            return None
        head = bytes(self._received[:end])
        del self._received[: end + len(_END_OF_HEAD)]
        self._searched_bytes = 0
        return parse_head(head)

    def _refuse(self, refusal: BadRequest) -> None:
        page = error_page(refusal.status, str(refusal))
        self._received.clear()
        self._begin(Reply(page, None, keep_alive=False))

    def _begin(self, reply: Reply) -> None:
        self._reply = reply
        self._server.is_answered(self)
        self._transport.pause_reading()
        self._set_deadline(self._limits.reply_timeout_s)
        self._write_slice()

    def _write_slice(self) -> None:
        """One slice of the reply, then the loop's other work, while the client takes it."""
        if self._reply is None or not self._may_write or self._transport.is_closing():
            return
        try:
            piece = next(self._reply.pieces, None)
        except Exception:
            self._transport.abort()
            raise
        if piece is None:
            self._end(self._reply)
            return
        self._transport.write(piece)
        if self._may_write:
            self._loop.call_soon(self._write_slice)

    def _end(self, reply: Reply) -> None:
        self._reply = None
        if not reply.keep_alive:
            # The deadline stands: a client that takes nothing is not waited for.
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
