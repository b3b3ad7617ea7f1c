"""What a check found."""

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """Whether it works, works with something missing, or does not."""

    OK = "ok"
    LIMITED = "limited"
    BROKEN = "broken"


class Finding(NamedTuple):
    """One line of the report."""

    name: str
    state: State
    found: str
    advice: str | None = None
