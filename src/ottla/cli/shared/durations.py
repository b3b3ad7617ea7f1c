"""Durations in the notation of users: 90s, 15m, 2h, 3d."""

import re

from ottla.cli.shared.failure import ExitCode, Failure

_DURATION = re.compile(r"([0-9]{1,6})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int | None:
    """The duration in ms; None if the text is none."""
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _UNIT_MS[found[2]]


def parse_duration(text: str, option: str) -> int:
    """The duration in ms. Failure if it is invalid."""
    found = duration_ms(text)
    if found is None:
        raise Failure(
            f"{option} {text!r} is not a duration",
            advice="a number and a unit, as 90s, 15m, 2h or 3d",
            exit_code=ExitCode.USAGE,
        )
    return found
