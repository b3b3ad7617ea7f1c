"""Parsers for option values in Spark's notation: durations and patterns."""

import re

_DURATION = re.compile(r"([0-9]{1,15})\s*([a-z]*)", re.IGNORECASE)
_UNIT_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration_ms(text: str) -> int:
    """Parses `30s`, `15m`, `1h`; without a unit, ms, as in Spark. ValueError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or found[2].lower() not in _UNIT_MS:
        raise ValueError(f"{text!r} is not a duration")
    return int(found[1]) * _UNIT_MS[found[2].lower()]


def parse_pattern(text: str) -> str:
    """The text, if it is a regular expression. ValueError."""
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    return text
