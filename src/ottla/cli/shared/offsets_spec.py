"""Offset specs in the notation of users: beginning, end, an offset or a time."""

import re
from datetime import datetime
from typing import NamedTuple

from ottla.cli.shared.durations import duration_ms
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.protocol.offset_spec import OffsetSpec

_OFFSET = re.compile(r"[0-9]{1,18}")
OFFSET_SPEC_HELP = (
    "beginning, end, an offset, a time (2026-01-31T18:00) or how long ago (15m, 2h, 3d)"
)


class Offset(NamedTuple):
    """The same offset in every partition."""

    offset: int


class Time(NamedTuple):
    """The first record at or after a time, in ms since 1970."""

    timestamp_ms: int


Position = OffsetSpec | Offset | Time


def parse_position(text: str, option: str, now_ms: int) -> Position:
    """Parses an offset spec. A time without a zone is local. Failure if it is invalid."""
    if text == "beginning":
        return OffsetSpec.EARLIEST
    if text == "end":
        return OffsetSpec.LATEST
    if _OFFSET.fullmatch(text):
        return Offset(int(text))
    if (ago_ms := duration_ms(text)) is not None:
        return Time(max(0, now_ms - ago_ms))
    try:
        return Time(max(0, int(datetime.fromisoformat(text).timestamp() * 1000)))
    except (ValueError, OverflowError):
        raise Failure(
            f"{option} {text!r} is not a valid position",
            advice=OFFSET_SPEC_HELP,
            exit_code=ExitCode.USAGE,
        ) from None
