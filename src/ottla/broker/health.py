"""Metrics and health over HTTP/1.1: GET or HEAD of /metrics, /health/live and /health/ready.

Three pages need no framework: one would add to every broker's start-up time and memory. It is an
asyncio protocol on the broker's own loop, with no thread and no task. A page of metrics is written
slice by slice, a turn of the loop for each, and no faster than the client reads.

A request that needs more than this gets an answer that says so, and is not read further: a body, a
head above its limit, another method. What comes too slowly ends without one.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple, cast

from ottla.metrics.exposition import CONTENT_TYPE as METRICS_CONTENT_TYPE
from ottla.seams.net import Listener, Net

JSON_CONTENT_TYPE = "application/json"
WRITE_BUFFER_BYTES_MAX = 64 << 10

_END_OF_HEAD = b"\r\n\r\n"
_REQUEST_LINE = re.compile(r"([!-~]+) ([!-~]+) HTTP/1\.([01])")
_HEADER_LINE = re.compile(r"([-!#$%&'*+.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*")


class Condition:
    """Something that holds unless a part of the node says why not."""

    __slots__ = ("_reasons",)

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def fail(self, part: str, reason: str) -> None:
        """It does not hold; a part has one reason at a time, the last it gave."""
        self._reasons[part] = reason

    def clear(self, part: str) -> None:
        """As far as this part is concerned, it holds."""
        self._reasons.pop(part, None)

    @property
    def reasons(self) -> list[str]:
        return [f"{part}: {reason}" for part, reason in self._reasons.items()]


class Health:
    """What a node says of itself.

    One that is not alive wants a restart; one that is not ready wants to be left alone until it is.
    """

    __slots__ = ("live", "ready", "warnings")

    def __init__(self) -> None:
        self.live = Condition()
        self.ready = Condition()
        # What somebody should see to, though the node serves.
        self.warnings = Condition()

    def liveness(self) -> "Page":
        return _health_page(self.live.reasons, self.warnings.reasons)

    def readiness(self) -> "Page":
        """Whoever is not alive is not ready either."""
        return _health_page([*self.live.reasons, *self.ready.reasons], self.warnings.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """What a client may take of us."""

    connections_max: int = 32
    head_bytes_max: int = 8 << 10
    # From connecting, or from a request's first byte, to the end of its head.
    head_timeout_s: float = 10.0
    # From the head to the last byte that the client takes.
    reply_timeout_s: float = 30.0
    # Between two requests; longer than the usual scrape interval of a minute.
    idle_timeout_s: float = 75.0


class Page(NamedTuple):
    """An answer: its body in pieces, of a length that is known only if there is but one."""

    status: HTTPStatus
    content_type: str
    body: Iterable[bytes]
    is_whole: bool = True


class Request(NamedTuple):
    method: str
    path: str
    is_http_1_0: bool
    keep_alive: bool


class BadRequest(Exception):
    """The client's fault: it is answered with `status`, and the connection ends."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def parse_head(head: bytes) -> Request:
    """A request from its line and headers, without the empty line that ends them. BadRequest."""
    line, *header_lines = head.decode("latin-1").split("\r\n")
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "not a request line of HTTP/1.x")
    method, target, minor = found.groups()
    headers = _parse_headers(header_lines)
    if minor == "1" and "host" not in headers:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "no host header")
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no request here has a body")
    options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    is_http_1_0 = minor == "0"
    keep_alive = "keep-alive" in options if is_http_1_0 else "close" not in options
    return Request(method, target.partition("?")[0], is_http_1_0, keep_alive)


def _parse_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER_LINE.fullmatch(line)
        if found is None:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "not a header line")
        name = found[1].lower()
        # A header that is given twice is the list of what it was given.
        headers[name] = f"{headers[name]},{found[2]}" if name in headers else found[2]
    return headers


def _health_page(reasons: list[str], warnings: list[str]) -> Page:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    content: dict[str, object] = {"status": "unavailable" if reasons else "ok", "reasons": reasons}
    if warnings:
        content["warnings"] = warnings
    return _json_page(status, content)


def _error_page(status: HTTPStatus, reason: str) -> Page:
    return _json_page(status, {"status": status.phrase.lower(), "reasons": [reason]})


def _json_page(status: HTTPStatus, content: dict[str, object]) -> Page:
    return Page(status, JSON_CONTENT_TYPE, [json.dumps(content).encode() + b"\n"])


class HealthServer:
    """Serves a node's health and metrics on a listener of its own."""

    def __init__(
        self,
        net: Net,
        health: Health,
        metrics: Callable[[], Iterator[bytes]],
        limits: HealthLimits | None = None,
    ) -> None:
        """`metrics` gives the page in slices, each of them small."""
        self.limits = limits if limits is not None else HealthLimits()
        self._net = net
        self._listener: Listener | None = None
        # A dict, because a set would have no order.
        self._connections: dict[int, HealthConnection] = {}
        self._pages: dict[str, Callable[[], Page]] = {
            "/health/live": health.liveness,
            "/health/ready": health.readiness,
            "/metrics": lambda: Page(
                HTTPStatus.OK, METRICS_CONTENT_TYPE, metrics(), is_whole=False
            ),
        }

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def start(self, host: str, port: int) -> int:
        """Listens; the port in force. OSError if it is taken."""
        self._listener = await self._net.listen(lambda: HealthConnection(self), host, port)
        return self._listener.port

    async def close(self) -> None:
        """Takes no more connections and ends those that stand."""
        if self._listener is not None:
            await self._listener.close()
        for connection in list(self._connections.values()):
            connection.abort()

    def admit(self, connection: "HealthConnection") -> bool:
        """Whether there is room for one more; if so it is held until `forget`."""
        if len(self._connections) >= self.limits.connections_max:
            return False
        self._connections[id(connection)] = connection
        return True

    def forget(self, connection: "HealthConnection") -> None:
        self._connections.pop(id(connection), None)

    def answer(self, request: Request) -> Page:
        page = self._pages.get(request.path)
        if page is None:
            return _error_page(HTTPStatus.NOT_FOUND, f"there is {', '.join(self._pages)}")
        if request.method not in ("GET", "HEAD"):
            return _error_page(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
        return page()


class HealthConnection(asyncio.Protocol):
    """One client: reads a request, writes its answer, and so on. Reads nothing meanwhile."""

    def __init__(self, server: HealthServer) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
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
        if not self._server.admit(self):
            self._refuse(BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections"))

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
        end = self._received.find(_END_OF_HEAD)
        head_bytes = end if end >= 0 else len(self._received)
        if head_bytes > self._limits.head_bytes_max:
            raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head is too long")
        if end < 0:
            return None
        head = bytes(self._received[:end])
        del self._received[: end + len(_END_OF_HEAD)]
        return parse_head(head)

    def _refuse(self, refusal: BadRequest) -> None:
        page = _error_page(refusal.status, str(refusal))
        self._received.clear()
        self._begin(Reply(page, None, keep_alive=False))

    def _begin(self, reply: "Reply") -> None:
        self._reply = reply
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

    def _end(self, reply: "Reply") -> None:
        self._reply = None
        if not reply.keep_alive:
            # The deadline stands: a client that takes nothing is not waited for.
            self._transport.close()
            return
        self._set_deadline(
            self._limits.head_timeout_s if self._received else self._limits.idle_timeout_s
        )
        self._transport.resume_reading()
        self._serve()

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(seconds, self._transport.abort)


class Reply:
    """A page as it goes out for one request; for none, if that was not understood."""

    __slots__ = ("_page", "_request", "keep_alive", "pieces")

    def __init__(self, page: Page, request: Request | None, *, keep_alive: bool) -> None:
        self._page = page
        self._request = request
        # Where the length is not known and chunks are not, the end of the connection ends the page.
        self.keep_alive = keep_alive and (page.is_whole or not self._ends_by_closing)
        self.pieces = self._encode()

    @property
    def _ends_by_closing(self) -> bool:
        return self._request is None or self._request.is_http_1_0

    def _encode(self) -> Iterator[bytes]:
        """Head and body. A piece is written before the next one is made."""
        is_head_only = self._request is not None and self._request.method == "HEAD"
        if self._page.is_whole:
            body = b"".join(self._page.body)
            head = self._head(f"Content-Length: {len(body)}")
            yield head if is_head_only else head + body
            return
        is_chunked = not self._ends_by_closing
        yield self._head("Transfer-Encoding: chunked" if is_chunked else "")
        if is_head_only:
            return
        # An empty chunk would be the last.
        for piece in filter(None, self._page.body):
            yield b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece
        if is_chunked:
            yield b"0\r\n\r\n"

    def _head(self, framing: str) -> bytes:
        status = self._page.status
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {self._page.content_type}",
            "Cache-Control: no-store",
            f"Connection: {'keep-alive' if self.keep_alive else 'close'}",
        ]
        if framing:
            lines.append(framing)
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            lines.append("Allow: GET, HEAD")
        return "\r\n".join([*lines, "", ""]).encode()
