"""What a row is: a load, the figures that it gives, what they must hold, what was expected."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from benchmarks.comparing import Hold
from benchmarks.peers.peer import Peer


class LoadFailed(Exception):
    """A load did not run as it should: its row has no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one run of a load gives: figures by name, and what broker CPU is divided by."""

    figures: Mapping[str, float]
    payload_bytes: float = 0
    requests: float = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """How much of a load is run: `scale` of its counts and seconds."""

    scale: float

    def count(self, full: int) -> int:
        return max(1, round(full * self.scale))

    def seconds(self, full: float) -> float:
        return max(0.5, full * self.scale)


class Load(Protocol):
    """Something to do to a broker, in the same way to each. Only `run` is measured."""

    def prepare(self, peer: Peer, scope: Scope, /) -> None: ...

    def run(self, peer: Peer, scope: Scope) -> Ran: ...

    def finish(self, peer: Peer) -> None: ...


class CpuPer(enum.Enum):
    """What a broker's CPU seconds are divided by."""

    GB = "GB"
    REQUESTS = "100,000 requests"
    NOTHING = ""

    def of(self, cpu_s: float, ran: Ran) -> float | None:
        if self is CpuPer.GB and ran.payload_bytes:
            return cpu_s / ran.payload_bytes * 1e9
        if self is CpuPer.REQUESTS and ran.requests:
            return cpu_s / ran.requests * 1e5
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of a load. `estimate` is ours to the base's, written before it was measured."""

    name: str
    unit: str
    hold: Hold | None
    estimate: float
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Declared once: table, page and plots are made of it.

    The base is Kafka under the same load, or, with `base`, ours under another one: then
    `base_name` says what that is.
    `short_share` is how much of the load the short set runs; 0: the row is not in it.
    """

    group: str
    name: str
    load: Load
    figures: tuple[Figure, ...]
    cpu_per: CpuPer = CpuPer.NOTHING
    cpu_hold: Hold | None = None
    short_share: float = 0
    base: Load | None = None
    base_name: str = "Kafka"
