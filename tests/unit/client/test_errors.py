"""The errors of requests."""

import errno

import pytest

from ottla.address import Address
from ottla.client.errors import (
    ConnectionLost,
    Refused,
    TimedOut,
    raise_if_refused,
    refusal,
    unreachable_error,
)
from ottla.errors import ErrorCode

HOST = Address("host", 9092)


def test_a_code_without_error_is_no_refusal_and_an_unknown_one_is() -> None:
    assert refusal(0, "topic orders") is None
    raise_if_refused(0, "topic orders")
    with pytest.raises(Refused, match="topic orders: UNKNOWN_SERVER_ERROR: later"):
        raise_if_refused(30_000, "topic orders", "later")


def test_only_some_codes_are_retriable() -> None:
    assert Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "p").is_retriable
    assert not Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "p").is_retriable


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TimedOut("late"), "host:9092 did not answer within 7 ms"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "text"), "host:9092: Connection refused"),
        (ConnectionLost("closed"), "no Kafka broker answers there: closed"),
    ],
)
def test_an_unreachable_address_has_a_reason(error: Exception, message: str) -> None:
    assert str(unreachable_error(HOST, error, 7)) == message
