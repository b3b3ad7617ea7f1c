"""Parsing of offset specs."""

import pytest

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.offsets_spec import Offset, Time, parse_position
from ottla.protocol.offset_spec import OffsetSpec

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "spec"),
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
def test_a_spec_is_a_word_an_offset_a_time_or_how_long_ago(text: str, spec: object) -> None:
    assert parse_position(text, "--from", now_ms=100 * HOUR_MS) == spec


@pytest.mark.parametrize("text", ["", "middle", "-1", "5w", "2026-13-01"])
def test_an_invalid_spec_is_a_usage_error_that_names_its_option(text: str) -> None:
    with pytest.raises(Failure, match=r"--from .* is not a valid position") as caught:
        parse_position(text, "--from", now_ms=0)
    assert caught.value.exit_code is ExitCode.USAGE
