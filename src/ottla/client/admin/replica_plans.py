"""Plans new replicas for partitions. Decides, does no I/O, and is deterministic.

A plan has the target of each partition whose replicas or preferred leader change: the replicas,
the preferred leader first.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.admin.balanced_choice import Choice, choose
from ottla.protocol.topic_partition import TopicPartition

Replicas = tuple[int, ...]
Targets = dict[TopicPartition, Replicas]


class PlacedPartition(NamedTuple):
    """A partition's replicas, the preferred leader first, and those in sync."""

    name: TopicPartition
    replicas: Replicas
    in_sync: Replicas


@dataclass(frozen=True, slots=True)
class Placement:
    """The live brokers and all partitions of a cluster.

    `domains` has the failure domain of each broker, its rack if it has one, else its host.
    """

    brokers: tuple[int, ...]
    partitions: tuple[PlacedPartition, ...]
    domains: Mapping[int, str] = field(default_factory=dict)

    def loads(self, besides: Collection[TopicPartition]) -> Counter[int]:
        """The number of replicas per broker, without those of some partitions."""
        return Counter(
            broker
            for each in self.partitions
            if each.name not in besides
            for broker in each.replicas
        )

    def leads(self, besides: Collection[TopicPartition]) -> Counter[int]:
        """The number of partitions per preferred leader, without some partitions."""
        return Counter(
            each.replicas[0]
            for each in self.partitions
            if each.replicas and each.name not in besides
        )


def plan_drain(placement: Placement, drained: int) -> Targets:
    """Moves every replica of a broker to others. Other replicas and leaders stay.

    ValueError if a partition has too few brokers left.
    """
    moved = [each for each in placement.partitions if drained in each.replicas]
    left = tuple(each for each in placement.brokers if each != drained)
    choices = {}
    for each in moved:
        stay = tuple(broker for broker in each.replicas if broker != drained)
        options = _union(stay, left)
        choices[each.name] = Choice(options, len(each.replicas), each.replicas, stay)
    return _targets(placement, moved, choices, keeps_leaders=True)


def plan_factor(placement: Placement, names: Collection[TopicPartition], factor: int) -> Targets:
    """Adds or removes replicas. Of those that are removed, as many as possible are not in sync.

    ValueError if there are too few brokers.
    """
    changed = [each for each in placement.partitions if each.name in names]
    choices = {}
    for each in changed:
        if len(each.replicas) <= factor:
            options = _union(each.replicas, placement.brokers)
            choices[each.name] = Choice(options, factor, each.replicas, each.replicas)
        else:
            choices[each.name] = _fewer(placement, each, factor)
    return _targets(placement, changed, choices, keeps_leaders=False)


def plan_spread(
    placement: Placement, names: Collection[TopicPartition], brokers: Sequence[int]
) -> Targets:
    """Spreads the replicas of partitions over some brokers, however they lie now.

    They keep their number. Replicas of other partitions do not count: each set of topics is even by
    itself. ValueError if there are too few brokers.
    """
    spread = [each for each in placement.partitions if each.name in names]
    options = tuple(sorted(brokers))
    choices = {each.name: Choice(options, len(each.replicas), each.replicas) for each in spread}
    alone = Placement(placement.brokers, tuple(spread), placement.domains)
    return _targets(alone, spread, choices, keeps_leaders=False)


def _fewer(placement: Placement, partition: PlacedPartition, factor: int) -> Choice:
    """Keeps replicas that are up and in sync, as far as there are enough."""
    whole = tuple(
        each
        for each in partition.replicas
        if each in partition.in_sync and each in placement.brokers
    )
    if len(whole) >= factor:
        return Choice(whole, factor, partition.replicas)
    return Choice(partition.replicas, factor, partition.replicas, whole)


def _targets(
    placement: Placement,
    partitions: Sequence[PlacedPartition],
    choices: Mapping[TopicPartition, Choice],
    *,
    keeps_leaders: bool,
) -> Targets:
    replicas = choose(choices, placement.loads(choices), placement.domains)
    leaders = {}
    for each in partitions:
        chosen, preferred = replicas[each.name], each.replicas[:1]
        stays = keeps_leaders and each.replicas[0] in chosen
        leaders[each.name] = Choice(
            preferred if stays else chosen, 1, preferred, preferred if stays else ()
        )
    led = choose(leaders, placement.leads(choices))
    targets = {}
    for each in partitions:
        (leader,) = led[each.name]
        target = (leader, *(other for other in replicas[each.name] if other != leader))
        if target != each.replicas:
            targets[each.name] = target
    return targets


def _union(first: Iterable[int], second: Iterable[int]) -> Replicas:
    # In order: a plan does not depend on the order in which a cluster lists its brokers.
    return tuple(sorted({*first, *second}))
