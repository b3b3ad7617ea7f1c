"""Places in a topic as users write them: its beginning, its end, an offset, a time."""

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.protocol.offset_spec import OffsetSpec

_AGO = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_OFFSET = re.compile(r"[0-9]{1,18}")
WAYS = "beginning, end, an offset, a time (2026-01-31T18:00) or how long ago (15m, 2h, 3d)"


class Offset(NamedTuple):
    """The same offset in every partition."""

    offset: int


class Time(NamedTuple):
    """Milliseconds since 1970: the first record that is not older."""

    timestamp_ms: int


Place = OffsetSpec | Offset | Time


def parse_place(text: str, option: str, now_ms: int) -> Place:
    """Where `text` is. A time without a zone is the machine's own. Failure if it is none."""
    if text == "beginning":
        return OffsetSpec.EARLIEST
    if text == "end":
        return OffsetSpec.LATEST
    if _OFFSET.fullmatch(text):
        return Offset(int(text))
    if ago := _AGO.fullmatch(text):
        elapsed = timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return Time(max(0, now_ms - int(elapsed.total_seconds() * 1000)))
    try:
        return Time(max(0, int(datetime.fromisoformat(text).timestamp() * 1000)))
    except (ValueError, OverflowError):
        raise Failure(
            f"{option} {text!r} is no place in a topic",
            advice=WAYS,
            exit_code=ExitCode.USAGE,
        ) from None
