"""Spark's values as JSON, without loss for types that JSON lacks."""

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import Row
from pyspark.sql.types import VariantVal

from ottla.cli.shared.cells import bytes_cell

_US_PER_MS = 1_000


def json_value(value: object) -> Any:
    """A value as JSON: UTF-8 bytes, decimals, times, NaN and infinity become strings."""
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
            return {name: json_value(each) for name, each in value.asDict().items()}
        case dict():
            return {_key(key): json_value(each) for key, each in value.items()}
        case list() | tuple():
            return [json_value(each) for each in value]
        case VariantVal():
            return json_value(value.toPython())
        case Decimal() | timedelta():
            return str(value)
        case _:
            return str(value)


def _key(key: object) -> str:
    json_key = json_value(key)
    return json_key if isinstance(json_key, str) else str(json_key)
