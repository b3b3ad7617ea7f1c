"""The result of a check."""

from enum import StrEnum
from typing import NamedTuple


class FindingState(StrEnum):
    """Whether the checked part works, works with limits, or does not work."""

    OK = "ok"
    LIMITED = "limited"
    BROKEN = "broken"


class Finding(NamedTuple):
    """One row of the report."""

    name: str
    state: FindingState
    found: str
    advice: str | None = None
