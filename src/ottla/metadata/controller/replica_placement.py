"""The placement of the replicas of new partitions on brokers. Decides, does no I/O."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class UsableBroker(NamedTuple):
    """A broker that can get replicas, with its failure domains."""

    broker_id: int
    rack: str | None
    host: str


def place_replicas(
    brokers: Sequence[UsableBroker], partitions: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, the leader first.

    No two replicas of a partition are on the same broker, and on the same rack or host only if
    there are too few. Within that, replicas and leaders are balanced over the brokers. The result
    depends on `start`. ValueError if there are fewer brokers than replicas.
    """
    if not 0 < replication_factor <= len(brokers):
        raise ValueError(f"{replication_factor} replicas on {len(brokers)} brokers")
    replicas = Counter[int]()
    leaders = Counter[int]()
    placed = []
    for turn in range(start, start + partitions):
        chosen = _choose(_from(brokers, turn), replication_factor, replicas)
        leader = min(chosen, key=lambda broker_id: leaders[broker_id])
        leaders[leader] += 1
        replicas.update(chosen)
        placed.append((leader, *(broker_id for broker_id in chosen if broker_id != leader)))
    return placed


def _from(brokers: Sequence[UsableBroker], turn: int) -> list[UsableBroker]:
    """All brokers, rotated by `turn`: else the same brokers would always share partitions."""
    first = turn % len(brokers)
    return [*brokers[first:], *brokers[:first]]


def _choose(brokers: list[UsableBroker], count: int, replicas: Counter[int]) -> list[int]:
    """The brokers of one partition; the first one of equally good ones."""
    racks = Counter[str | None]()
    hosts = Counter[str]()
    chosen: list[int] = []
    for _ in range(count):
        best = min(
            brokers,
            key=lambda broker: (racks[broker.rack], hosts[broker.host], replicas[broker.broker_id]),
        )
        brokers.remove(best)
        racks[best.rack] += 1
        hosts[best.host] += 1
        chosen.append(best.broker_id)
    return chosen
