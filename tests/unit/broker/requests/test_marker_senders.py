"""Markers of a coordinator are taken on its newest connection only."""

from typing import Any, cast

import pytest

from ottla.broker.net.session import Session
from ottla.broker.requests.marker_senders import MarkerSenders
from ottla.errors import ErrorCode, PeerError
from ottla.settings.listeners import SecurityProtocol

BROKERS = frozenset({"broker-1", "broker-2"})


def session(client_id: str | None) -> Session:
    made = Session(cast("Any", None), "BROKERS", SecurityProtocol.PLAINTEXT)
    made.client_id = client_id
    return made


def test_a_former_connection_is_refused_once_the_later_one_was_used() -> None:
    senders = MarkerSenders()
    former, later, other = session("broker-1"), session("broker-1"), session("broker-2")
    senders.check(former, BROKERS)
    senders.check(later, BROKERS)
    senders.check(other, BROKERS)
    senders.check(later, BROKERS)
    with pytest.raises(PeerError) as refused:
        senders.check(former, BROKERS)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_a_former_connection_that_was_never_used_is_refused_as_well() -> None:
    senders = MarkerSenders()
    former, later = session("broker-1"), session("broker-1")
    senders.check(later, BROKERS)
    with pytest.raises(PeerError):
        senders.check(former, BROKERS)


@pytest.mark.parametrize("client_id", [None, "admin", "broker-3"])
def test_clients_that_are_no_brokers_may_use_any_connection(client_id: str | None) -> None:
    senders = MarkerSenders()
    former, later = session(client_id), session(client_id)
    senders.check(later, BROKERS)
    senders.check(former, BROKERS)
    assert senders._newest == {}
