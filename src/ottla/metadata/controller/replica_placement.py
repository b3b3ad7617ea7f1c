"""Which brokers get the replicas of new partitions. Decides, does no I/O."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Site(NamedTuple):
    """A broker, and what it shares with others when something burns."""

    broker_id: int
    rack: str | None
    host: str


def place(
    sites: Sequence[Site], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, the one that is to lead first.

    No two of a partition are on one broker; on one rack, or one host, only where there are too few.
    Within that each broker gets as many replicas as any other, and as many to lead. The same start
    gives the same placement, another one another; ValueError for more replicas than sites.
    """
    if not 0 < replication_factor <= len(sites):
        raise ValueError(f"{replication_factor} replicas on {len(sites)} brokers")
    replicas = Counter[int]()
    leaders = Counter[int]()
    placed = []
    for turn in range(start, start + partitions):
        chosen = _choose(_from(sites, turn), replication_factor, replicas)
        leader = min(chosen, key=lambda broker_id: leaders[broker_id])
        leaders[leader] += 1
        replicas.update(chosen)
        placed.append((leader, *(broker_id for broker_id in chosen if broker_id != leader)))
    return placed


def _from(sites: Sequence[Site], turn: int) -> list[Site]:
    """All sites, beginning with another one each turn: else the same ones would always meet."""
    first = turn % len(sites)
    return [*sites[first:], *sites[:first]]


def _choose(sites: list[Site], count: int, replicas: Counter[int]) -> list[int]:
    """The brokers for one partition; of equally good ones the first."""
    racks = Counter[str | None]()
    hosts = Counter[str]()
    chosen: list[int] = []
    for _ in range(count):
        best = min(
            sites,
            key=lambda site: (racks[site.rack], hosts[site.host], replicas[site.broker_id]),
        )
        sites.remove(best)
        racks[best.rack] += 1
        hosts[best.host] += 1
        chosen.append(best.broker_id)
    return chosen
