"""A row: a load, its figures, their holds and their estimates."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from benchmarks.comparing import Hold
from benchmarks.peers.peer import Peer


class LoadFailed(Exception):
    """A load failed: its row has no figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The result of one run: figures by name, and the divisors for broker CPU."""

    figures: Mapping[str, float]
    payload_bytes: float = 0
    requests: float = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """The share of a load to run: `scale` of its counts and seconds."""

    scale: float

    def count(self, full: int) -> int:
        return max(1, round(full * self.scale))

    def seconds(self, full: float) -> float:
        return max(0.5, full * self.scale)


class Load(Protocol):
    """A load, the same for each broker. Only `run` is measured."""

    def prepare(self, peer: Peer, scope: Scope, /) -> None: ...

    def run(self, peer: Peer, scope: Scope, /) -> Ran: ...

    def finish(self, peer: Peer, /) -> None: ...


class CpuPer(enum.Enum):
    """The unit to which a broker's CPU seconds are related."""

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
    """One figure of a load. `estimate` is the ratio expected before the first measurement."""

    name: str
    unit: str
    hold: Hold | None
    estimate: float
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row is declared once; table, page and plots are generated from it.

    The base is Kafka under the same load, or, with `base`, our broker under another load with the
    name `base_name`. `short_share` is the share of the load in the short set; 0: not in it.
    With `is_cluster`, both are three brokers.
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
    is_cluster: bool = False
