"""HTTP responses as bytes: their framing, and whether the connection stays open."""

from http import HTTPStatus

import pytest

from ottla.broker.http.request_head import HttpRequest
from ottla.broker.http.response import HttpResponse, Page, error_page

GET = HttpRequest("GET", "/metrics", is_http_1_0=False, keep_alive=True)
OLD = HttpRequest("GET", "/metrics", is_http_1_0=True, keep_alive=True)
SLICES = Page(HTTPStatus.OK, "text/plain", [b"first", b"", b"second"], is_whole=False)


def encoded(page: Page, request: HttpRequest | None) -> tuple[str, bytes, bool]:
    response = HttpResponse(page, request, keep_alive=request is not None)
    head, _, body = b"".join(response.pieces).partition(b"\r\n\r\n")
    return head.decode(), body, response.keep_alive


def test_a_page_in_slices_is_chunked_without_empty_chunks() -> None:
    head, body, keep_alive = encoded(SLICES, GET)
    assert "Transfer-Encoding: chunked" in head
    assert body == b"5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n"
    assert keep_alive


@pytest.mark.parametrize("request_", [OLD, None])
def test_without_chunks_the_end_of_the_connection_ends_a_page_in_slices(
    request_: HttpRequest | None,
) -> None:
    head, body, keep_alive = encoded(SLICES, request_)
    assert "Transfer-Encoding" not in head
    assert "Connection: close" in head
    assert body == b"firstsecond"
    assert not keep_alive


def test_a_whole_page_has_a_length_and_head_leaves_out_the_body() -> None:
    page = error_page(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD")
    head, body, keep_alive = encoded(page, OLD)
    assert f"Content-Length: {len(body)}" in head
    assert "Allow: GET, HEAD" in head
    assert keep_alive
    assert encoded(page, OLD._replace(method="HEAD")) == (head, b"", True)
