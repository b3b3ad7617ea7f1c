"""A client's error becomes a message for the user and an exit code for scripts."""

import io

import pytest

from ottla.cli.shared.connect import client_failure
from ottla.cli.shared.listing import ListingFormat, listing_writer
from ottla.cli.shared.offsets_spec import Offset, Time, parse_position
from ottla.client.errors import (
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    Unreachable,
    UnsupportedByBroker,
)
from ottla.errors import ErrorCode
from ottla.protocol.offset_spec import OffsetSpec

HOUR_MS = 3_600_000


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


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", OffsetSpec.EARLIEST),
        ("end", OffsetSpec.LATEST),
        ("0", Offset(0)),
        ("123", Offset(123)),
        ("30s", Time(100 * HOUR_MS - 30_000)),
        ("15m", Time(100 * HOUR_MS - 900_000)),
        ("2h", Time(98 * HOUR_MS)),
        ("3d", Time(28 * HOUR_MS)),
        ("9d", Time(0)),
        ("1970-01-01T01:00:00Z", Time(HOUR_MS)),
        ("1970-01-01T03:00+02:00", Time(HOUR_MS)),
    ],
)
def test_a_place_is_a_word_an_offset_a_time_or_how_long_ago(text: str, place: object) -> None:
    assert parse_position(text, "--from", now_ms=100 * HOUR_MS) == place


def written(form: ListingFormat, *rows: dict[str, str | int | None]) -> str:
    stream = io.StringIO()
    writer = listing_writer(form, named="topic", stream=stream)
    for row in rows:
        writer.write(row)
    writer.close()
    return stream.getvalue()


def test_yaml_is_a_sequence_of_mappings() -> None:
    rows = ({"kind": "topic", "name": "a: b", "count": 1}, {"kind": "x", "leader": None})
    assert written(ListingFormat.YAML, *rows) == (
        '- kind: "topic"\n  name: "a: b"\n  count: 1\n- kind: "x"\n  leader: null\n'
    )
    assert written(ListingFormat.YAML) == "[]\n"


def test_names_are_those_of_the_listed_kind() -> None:
    rows = ({"kind": "topic", "name": "a"}, {"kind": "partition", "name": "a-0"})
    assert written(ListingFormat.NAME, *rows) == "a\n"
