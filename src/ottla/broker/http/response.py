"""Pages and HTTP responses: the metrics page is sent in slices, every other page whole. No I/O."""

import json
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import NamedTuple

from ottla.broker.http.request_head import HttpRequest

JSON_CONTENT_TYPE = "application/json"


class Page(NamedTuple):
    """A page. The length of its body is known only if `is_whole`."""

    status: HTTPStatus
    content_type: str
    body: Iterable[bytes]
    is_whole: bool = True


def health_page(reasons: list[str], warnings: list[str]) -> Page:
    """200 if there are no reasons, else 503 with the reasons."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    content: dict[str, object] = {"status": "unavailable" if reasons else "ok", "reasons": reasons}
    if warnings:
        content["warnings"] = warnings
    return _json_page(status, content)


def error_page(status: HTTPStatus, reason: str) -> Page:
    return _json_page(status, {"status": status.phrase.lower(), "reasons": [reason]})


def _json_page(status: HTTPStatus, content: dict[str, object]) -> Page:
    return Page(status, JSON_CONTENT_TYPE, [json.dumps(content).encode() + b"\n"])


class HttpResponse:
    """The response to a request; `request` is None if it could not be parsed."""

    __slots__ = ("_page", "_request", "keep_alive", "pieces")

    def __init__(self, page: Page, request: HttpRequest | None, *, keep_alive: bool) -> None:
        self._page = page
        self._request = request
        # Without a length and without chunks, the end of the connection ends the page.
        self.keep_alive = keep_alive and (page.is_whole or not self._ends_by_closing)
        self.pieces = self._encode()

    @property
    def _ends_by_closing(self) -> bool:
        return self._request is None or self._request.is_http_1_0

    def _encode(self) -> Iterator[bytes]:
        """Head and body. Each piece is written before the next one is made."""
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
        # An empty chunk would end the body.
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
