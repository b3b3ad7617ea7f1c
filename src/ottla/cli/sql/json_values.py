"""Spark's values as JSON has them, with nothing lost where JSON has less."""

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import Row
from pyspark.sql.types import VariantVal

from ottla.cli.shared.cells import bytes_cell

_US_PER_MS = 1_000


def plain(value: object) -> Any:
    """Bytes are text where they are that; decimals, times and what is no number are text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray():
            return bytes_cell(bytes(value))
        case datetime():
            is_whole = value.microsecond % _US_PER_MS == 0
            return value.isoformat(timespec="milliseconds" if is_whole else "microseconds")
        case date() | time():
            return value.isoformat()
        case Row():
            return {name: plain(each) for name, each in value.asDict().items()}
        case dict():
            return {_key(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case VariantVal():
            return plain(value.toPython())
        case Decimal() | timedelta():
            return str(value)
        case _:
            return str(value)


def _key(key: object) -> str:
    plain_key = plain(key)
    return plain_key if isinstance(plain_key, str) else str(plain_key)
