"""Listeners: parsing, formatting, and refused names and addresses."""

import pytest

from ottla.settings.kinds import NotAllowed
from ottla.settings.listeners import LISTENERS_MAX, ListenerAddress, ListenerList

PLAIN = ListenerList(protocols=("PLAINTEXT",))
BOTH = ListenerList(protocols=("PLAINTEXT", "SSL"))
ADVERTISED = ListenerList(protocols=("PLAINTEXT", "SSL"), is_advertised=True)


@pytest.mark.parametrize(
    ("text", "listeners", "printed"),
    [
        ("PLAINTEXT://127.0.0.1:9092", (ListenerAddress("PLAINTEXT", "127.0.0.1", 9092),), None),
        ("PLAINTEXT://:0", (ListenerAddress("PLAINTEXT", "", 0),), None),
        ("PLAINTEXT://0.0.0.0:65535", (ListenerAddress("PLAINTEXT", "0.0.0.0", 65535),), None),
        ("PLAINTEXT://[::1]:9092", (ListenerAddress("PLAINTEXT", "::1", 9092),), None),
        (
            "plaintext://a.example:1, SSL://b-2:2",
            (ListenerAddress("PLAINTEXT", "a.example", 1), ListenerAddress("SSL", "b-2", 2)),
            "PLAINTEXT://a.example:1,SSL://b-2:2",
        ),
    ],
)
def test_listeners_are_read_and_printed_as_kafka_writes_them(
    text: str, listeners: tuple[ListenerAddress, ...], printed: str | None
) -> None:
    assert BOTH.parse(text) == listeners
    assert BOTH.format(listeners) == (printed or text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9092",
        "localhost:9092",
        "PLAINTEXT://localhost",
        "PLAINTEXT://localhost:",
        "PLAINTEXT://localhost:65536",
        "PLAINTEXT://localhost:-1",
        "PLAINTEXT://a b:1",
        "PLAINTEXT://::1:9092",
        "PLAINTEXT://a:1,",
        "PLAINTEXT://a:1/path",
        ",".join(["PLAINTEXT://a:1"] * (LISTENERS_MAX + 5)),
    ],
)
def test_an_invalid_listener_is_refused(text: str) -> None:
    with pytest.raises(NotAllowed, match="name://host:port"):
        BOTH.parse(text)


def test_a_name_that_promises_encryption_never_opens_a_plain_port() -> None:
    with pytest.raises(NotAllowed, match="the name PLAINTEXT; port 0 is any free one"):
        PLAIN.parse("SSL://127.0.0.1:9093")


def test_two_listeners_of_one_name_are_refused() -> None:
    with pytest.raises(NotAllowed, match="each name once"):
        PLAIN.parse("PLAINTEXT://a:1,PLAINTEXT://b:2")


@pytest.mark.parametrize(
    "text", ["PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092", "SSL://[::]:1", "SSL://a:0"]
)
def test_only_an_address_that_others_can_connect_to_is_advertised(text: str) -> None:
    assert BOTH.parse(text)
    with pytest.raises(NotAllowed, match="host and port must be given"):
        ADVERTISED.parse(text)
