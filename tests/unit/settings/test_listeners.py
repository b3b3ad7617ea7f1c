"""Listeners: where a broker is to be found, and what it must not promise."""

import pytest

from ottla.settings.kinds import NotAllowed
from ottla.settings.listeners import LISTENERS_MAX, Listener, Listeners

PLAIN = Listeners(protocols=("PLAINTEXT",))
BOTH = Listeners(protocols=("PLAINTEXT", "SSL"))
ADVERTISED = Listeners(protocols=("PLAINTEXT", "SSL"), is_advertised=True)


@pytest.mark.parametrize(
    ("text", "listeners", "printed"),
    [
        ("PLAINTEXT://127.0.0.1:9092", (Listener("PLAINTEXT", "127.0.0.1", 9092),), None),
        ("PLAINTEXT://:0", (Listener("PLAINTEXT", "", 0),), None),
        ("PLAINTEXT://0.0.0.0:65535", (Listener("PLAINTEXT", "0.0.0.0", 65535),), None),
        ("PLAINTEXT://[::1]:9092", (Listener("PLAINTEXT", "::1", 9092),), None),
        (
            "plaintext://a.example:1, SSL://b-2:2",
            (Listener("PLAINTEXT", "a.example", 1), Listener("SSL", "b-2", 2)),
            "PLAINTEXT://a.example:1,SSL://b-2:2",
        ),
    ],
)
def test_listeners_are_read_and_printed_as_kafka_writes_them(
    text: str, listeners: tuple[Listener, ...], printed: str | None
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
def test_what_is_no_listener_is_refused(text: str) -> None:
    with pytest.raises(NotAllowed, match="name://host:port"):
        BOTH.parse(text)


def test_a_name_that_promises_encryption_never_opens_a_plain_port() -> None:
    with pytest.raises(NotAllowed, match="name of PLAINTEXT, port 0 for any free one"):
        PLAIN.parse("SSL://127.0.0.1:9093")


def test_two_listeners_of_one_name_are_refused() -> None:
    with pytest.raises(NotAllowed, match="each name once"):
        PLAIN.parse("PLAINTEXT://a:1,PLAINTEXT://b:2")


@pytest.mark.parametrize(
    "text", ["PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092", "SSL://[::]:1", "SSL://a:0"]
)
def test_only_an_address_that_others_can_connect_to_is_advertised(text: str) -> None:
    assert BOTH.parse(text)
    with pytest.raises(NotAllowed, match="host and port given"):
        ADVERTISED.parse(text)
