"""Listeners: parsing, formatting, and refused names and addresses."""

import pytest

from ottla.settings.kinds import NotAllowed
from ottla.settings.listeners import (
    LISTENERS_MAX,
    ListenerAddress,
    ListenerList,
    ListenerProtocol,
    ListenerProtocols,
    SecurityProtocol,
)
from ottla.settings.setting import BadSetting
from ottla.settings.sources import load
from ottla.settings.table.node import LISTENER_SECURITY_PROTOCOL_MAP, LISTENERS

OPENED = ListenerList()
ADVERTISED = ListenerList(is_advertised=True)
PROTOCOLS = ListenerProtocols()


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
        (
            "internal://0.0.0.0:1,TLS-9093://:2",
            (ListenerAddress("INTERNAL", "0.0.0.0", 1), ListenerAddress("TLS-9093", "", 2)),
            "INTERNAL://0.0.0.0:1,TLS-9093://:2",
        ),
    ],
)
def test_listeners_are_read_and_printed_as_kafka_writes_them(
    text: str, listeners: tuple[ListenerAddress, ...], printed: str | None
) -> None:
    assert OPENED.parse(text) == listeners
    assert OPENED.format(listeners) == (printed or text)


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
        OPENED.parse(text)


def started(**settings: str) -> object:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return load(given=given, environment={}, file=None)


@pytest.mark.parametrize(
    ("listeners", "protocols"),
    [
        ("SSL://127.0.0.1:9093", ""),
        ("PLAINTEXT://127.0.0.1:9092,SASL_SSL://127.0.0.1:9093", ""),
        ("INTERNAL://127.0.0.1:9093", "INTERNAL:SSL"),
        ("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT:SASL_PLAINTEXT"),
    ],
)
def test_a_name_that_promises_security_never_opens_a_plain_port(
    listeners: str, protocols: str
) -> None:
    given = {"listener_security_protocol_map": protocols} if protocols else {}
    with pytest.raises(BadSetting, match="allowed is only PLAINTEXT, other protocols are not"):
        started(listeners=listeners, **given)


def test_a_listener_without_a_protocol_is_refused() -> None:
    why = "listener.security.protocol.map has no security protocol for listener INTERNAL"
    with pytest.raises(BadSetting, match=why):
        started(listeners="INTERNAL://127.0.0.1:9093")
    with pytest.raises(BadSetting, match="no security protocol for listener PLAINTEXT"):
        started(listener_security_protocol_map="INTERNAL:PLAINTEXT")


def test_only_a_listener_that_there_is_is_advertised() -> None:
    with pytest.raises(BadSetting, match=r"there is no listener OUTSIDE: .* which are PLAINTEXT$"):
        started(
            advertised_listeners="OUTSIDE://a:1",
            listener_security_protocol_map="OUTSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        )


def test_listeners_of_any_names_may_be_plain() -> None:
    settings = started(
        listeners="internal://:9092,OUTSIDE://:9093",
        advertised_listeners="OUTSIDE://a.example:443",
        listener_security_protocol_map="INTERNAL:PLAINTEXT, outside:plaintext",
    )
    assert [each.name for each in settings[LISTENERS]] == ["INTERNAL", "OUTSIDE"]
    protocols = settings[LISTENER_SECURITY_PROTOCOL_MAP]
    assert protocols == (
        ListenerProtocol("INTERNAL", SecurityProtocol.PLAINTEXT),
        ListenerProtocol("OUTSIDE", SecurityProtocol.PLAINTEXT),
    )
    assert PROTOCOLS.format(protocols) == "INTERNAL:PLAINTEXT,OUTSIDE:PLAINTEXT"


def test_the_names_of_protocols_have_the_protocols_of_these_names() -> None:
    default = LISTENER_SECURITY_PROTOCOL_MAP.default
    assert PROTOCOLS.format(default) == (
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    )


@pytest.mark.parametrize(
    "text", ["", "A", "A:", ":SSL", "A:TLS", "A:SSL,", "A B:SSL", "A:SSL:SSL", "A:SSL,a:SSL"]
)
def test_what_is_no_map_is_refused(text: str) -> None:
    with pytest.raises(NotAllowed, match="name:protocol"):
        PROTOCOLS.parse(text)


def test_two_listeners_of_one_name_are_refused() -> None:
    with pytest.raises(NotAllowed, match="each name once"):
        OPENED.parse("PLAINTEXT://a:1,PLAINTEXT://b:2")


@pytest.mark.parametrize(
    "text", ["PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092", "SSL://[::]:1", "SSL://a:0"]
)
def test_only_an_address_that_others_can_connect_to_is_advertised(text: str) -> None:
    assert OPENED.parse(text)
    with pytest.raises(NotAllowed, match="host and port must be given"):
        ADVERTISED.parse(text)
