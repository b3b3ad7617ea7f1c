"""Durations as users write them."""

import pytest

from ottla.cli.shared.durations import parse_duration
from ottla.cli.shared.failure import ExitCode, Failure


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0s", 0), ("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), ("3d", 259_200_000)],
)
def test_a_number_and_a_unit_are_a_duration(text: str, ms: int) -> None:
    assert parse_duration(text, "--older-than") == ms


@pytest.mark.parametrize("text", ["", "15", "m", "1.5h", "-1m", "1w", "15 m", "1234567s", "٣d"])
def test_anything_else_is_a_usage_error(text: str) -> None:
    with pytest.raises(Failure) as failed:
        parse_duration(text, "--older-than")
    assert failed.value.exit_code == ExitCode.USAGE
    assert failed.value.what == f"--older-than {text!r} is not a duration"
