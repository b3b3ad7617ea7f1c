"""The head of an HTTP request: accepted or refused in time linear in its length."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.http.request_head import MAX_HEADERS, BadRequest, HttpRequest, parse_head

GET = b"GET /metrics HTTP/1.1\r\nHost: x"
HEAD_BYTES = 16 << 10


def filled(start: bytes, filler: bytes, end: bytes = b"") -> bytes:
    """A head of 16 KiB that is filled with `filler`."""
    return start + filler * ((HEAD_BYTES - len(start) - len(end)) // len(filler)) + end


# The timeout is far above what any machine needs, and far below what backtracking would take:
# a header with 1,200 spaces once took seconds, and eight times as long for twice as many.
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "head",
    [
        filled(GET + b"\r\nA:", b" ", b"\n"),
        filled(GET + b"\r\nA:", b" ", b"x\n"),
        filled(GET + b"\r\nA:", b" \t", b"\x00"),
        filled(GET + b"\r\n", b"a", b" : b"),
        filled(GET + b"\r\n", b"a"),
        filled(GET + b"\r\nA:", b" x", b"\n"),
        filled(b"GET ", b" ", b"/ HTTP/1.1"),
        filled(b"GET /", b"a", b" HTTP/1.1 "),
        filled(b"", b" "),
        filled(GET + b"\r\n", b":"),
        filled(GET, b"\r\n"),
    ],
)
def test_a_hostile_head_of_16_kib_is_refused_in_no_more_time_than_its_length(head: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_head(head)


@pytest.mark.timeout(60)
def test_a_header_of_16_kib_of_spaces_is_an_empty_header() -> None:
    assert parse_head(filled(GET + b"\r\nConnection:", b" ")).keep_alive
    assert not parse_head(filled(GET + b"\r\nConnection:", b" ", b"close")).keep_alive


def test_thousands_of_headers_are_refused() -> None:
    taken = b"\r\n".join([GET, *[b"a:b"] * (MAX_HEADERS - 1)])
    assert parse_head(taken).path == "/metrics"
    for more in (1, 5_000):
        with pytest.raises(BadRequest, match="headers") as refused:
            parse_head(taken + b"\r\na:b" * more)
        assert refused.value.status == 431


def test_a_head_is_parsed_or_refused_and_nothing_else() -> None:
    head = b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\nCONNECTION: foo, Close"
    assert parse_head(head) == HttpRequest("GET", "/metrics", is_http_1_0=False, keep_alive=False)
    with pytest.raises(BadRequest, match="host"):
        parse_head(b"GET / HTTP/1.1")


@pytest.mark.parametrize("bad", [b"\r", b"\n", b"\x00"])
def test_a_header_with_a_line_break_of_its_own_is_refused(bad: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_head(GET + b"\r\nA: b" + bad + b"c: d")


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(head: bytes) -> None:
    status = 200
    try:
        request = parse_head(GET + b"\r\n" + head)
    except BadRequest as refused:
        status = int(refused.status)
    assert status in (200, 400, 413, 431)
    assert status != 200 or request[:2] == ("GET", "/metrics")


@given(
    st.text(string.ascii_letters + string.digits + "-_!#$", min_size=1, max_size=20),
    st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=50),
)
def test_other_headers_are_accepted_and_ignored(name: str, value: str) -> None:
    if name.lower() in ("connection", "content-length", "transfer-encoding"):
        return
    assert parse_head(GET + f"\r\n{name}:{value}".encode("latin-1")) == parse_head(GET)
