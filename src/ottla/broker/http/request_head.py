"""The head of an HTTP/1.x request, parsed in time linear in its length. No I/O.

Uses only methods of `bytes`: a regular expression may backtrack, and would block the event loop for
every client of the broker. h11 would work as well, but its import adds 8 ms to a start of about
100 ms, for three pages that take no body.
"""

import string
from http import HTTPStatus
from typing import NamedTuple

MAX_HEADERS = 100

_TOKEN = (string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~").encode()
_VISIBLE = bytes(range(0x21, 0x7F))
_VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")
# The headers that have an effect here; the others are checked and dropped.
_READ_HEADERS = (b"host", b"connection", b"content-length", b"transfer-encoding")


class HttpRequest(NamedTuple):
    method: str
    path: str
    is_http_1_0: bool
    keep_alive: bool


class BadRequest(Exception):
    """A malformed request: the response has `status`, and the connection ends."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def parse_head(head: bytes) -> HttpRequest:
    """Parses the request line and headers, without the empty line that ends them. BadRequest."""
    line, *header_lines = head.split(b"\r\n")
    method, target, is_http_1_0 = _parse_request_line(line)
    headers = _parse_headers(header_lines)
    if not is_http_1_0 and not headers[b"host"]:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "no host header")
    if headers[b"transfer-encoding"] or any(size != b"0" for size in headers[b"content-length"]):
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "no request here has a body")
    options = {
        option.strip(b" \t").lower()
        for value in headers[b"connection"]
        for option in value.split(b",")
    }
    keep_alive = b"keep-alive" in options if is_http_1_0 else b"close" not in options
    path = target.partition(b"?")[0]
    return HttpRequest(method.decode("ascii"), path.decode("ascii"), is_http_1_0, keep_alive)


def _parse_request_line(line: bytes) -> tuple[bytes, bytes, bool]:
    """Method, target, and whether the version is 1.0."""
    # One split more than a valid line has: a line of spaces makes no long list.
    parts = line.split(b" ", 3)
    if (
        len(parts) != 3
        or not _consists_of(_TOKEN, parts[0])
        or not _consists_of(_VISIBLE, parts[1])
        or parts[2] not in _VERSIONS
    ):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "not a request line of HTTP/1.x")
    return parts[0], parts[1], parts[2] == b"HTTP/1.0"


def _parse_headers(lines: list[bytes]) -> dict[bytes, list[bytes]]:
    """The values of the headers in _READ_HEADERS, in their order."""
    if len(lines) > MAX_HEADERS:
        raise BadRequest(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {MAX_HEADERS} headers"
        )
    headers: dict[bytes, list[bytes]] = {name: [] for name in _READ_HEADERS}
    for line in lines:
        name, colon, value = line.partition(b":")
        is_header = colon and _consists_of(_TOKEN, name)
        if not is_header or b"\n" in value or b"\r" in value or b"\0" in value:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "not a header line")
        if name.lower() in headers:
            headers[name.lower()].append(value.strip(b" \t"))
    return headers


def _consists_of(allowed: bytes, text: bytes) -> bool:
    """Whether the text is not empty and has only these bytes."""
    return text != b"" and not text.translate(None, allowed)
