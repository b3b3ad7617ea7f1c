"""A client's error becomes a message for the user and an exit code for scripts."""

import pytest

from ottla.cli.shared.connect import client_failure
from ottla.client.errors import (
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    Unreachable,
    UnsupportedByBroker,
)
from ottla.errors import ErrorCode


@pytest.mark.parametrize(
    ("error", "exit_code", "words"),
    [
        (Unreachable("nobody"), 3, "no response from here:1"),
        (ConnectionLost("gone"), 3, "no response from here:1"),
        (TimedOut("slow"), 3, "no response from here:1"),
        (Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic a"), 4, "no topic 'a'"),
        (Refused(ErrorCode.UNKNOWN_TOPIC_ID, "topic a"), 4, "no topic 'a'"),
        (Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic a"), 5, "topic a: denied"),
        (Refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "it"), 5, "it: denied"),
        (Refused(ErrorCode.INVALID_CONFIG, "topic a", "no such"), 1, "topic a"),
        (UnsupportedByBroker("Fetch is not offered"), 1, "Fetch is not offered"),
    ],
)
def test_each_failure_has_its_exit_code(error: ClientError, exit_code: int, words: str) -> None:
    failure = client_failure(error, "here:1")
    assert (failure.exit_code, failure.what) == (exit_code, words)


def test_the_brokers_own_words_are_the_reason_if_it_has_any() -> None:
    silent = Refused(ErrorCode.INVALID_CONFIG, "topic a")
    assert client_failure(silent, "here:1").why == "INVALID_CONFIG"
    telling = Refused(ErrorCode.INVALID_CONFIG, "topic a", "Unknown topic config name: x")
    assert client_failure(telling, "here:1").why == "Unknown topic config name: x"
