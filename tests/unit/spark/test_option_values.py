"""Option values in Spark's notation."""

import pytest

from ottla.spark.option_values import parse_duration_ms, parse_pattern


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("250", 250), ("250ms", 250), ("30s", 30_000), (" 15 min ", 900_000), ("1H", 3_600_000)],
)
def test_a_duration_has_a_unit_or_is_in_ms(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "s", "1.5s", "-1s", "3 weeks"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(text)


def test_a_pattern_is_a_regular_expression() -> None:
    assert parse_pattern("orders-.*") == "orders-.*"
    with pytest.raises(ValueError, match="is not a regular expression"):
        parse_pattern("(")
