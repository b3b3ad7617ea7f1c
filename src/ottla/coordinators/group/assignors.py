"""The server-side assignors. Pure.

An assignor gets the members with their subscriptions and previous target assignments, and the
partition count of every topic. It assigns each partition of a subscribed topic to one subscriber,
and no other partition. The result depends only on the arguments.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from ottla.coordinators.group.records import Partitions
from ottla.protocol.primitives import Uuid

TopicIdPartition = tuple[Uuid, int]


class Subscriber(NamedTuple):
    """One member: its subscribed topics, and its previous target assignment."""

    topics: frozenset[Uuid]
    before: Partitions = MappingProxyType({})
    instance_id: str | None = None


Subscribers = Mapping[str, Subscriber]
PartitionCounts = Mapping[Uuid, int]
Assignor = Callable[[Subscribers, PartitionCounts], dict[str, Partitions]]


def assign_range(members: Subscribers, counts: PartitionCounts) -> dict[str, Partitions]:
    """Algorithm 1 of the Kafka paper: each member gets a range of the partitions of every topic.

    The first members get one more if the partitions do not divide evenly. Topics with the same
    subscribers and partition count are assigned alike (co-partitioned). Static members come first,
    ordered by instance id, so that a restart does not change their ranges.
    """
    shares: dict[str, dict[Uuid, tuple[int, ...]]] = {member_id: {} for member_id in members}
    for topic_id, subscribers in _subscribers(members, counts).items():
        ordered = sorted(subscribers, key=lambda name: _range_order(name, members[name]))
        each, left = divmod(counts[topic_id], len(ordered))
        start = 0
        for place, member_id in enumerate(ordered):
            end = start + each + (place < left)
            if end > start:
                shares[member_id][topic_id] = tuple(range(start, end))
            start = end
    return dict(shares)


def _range_order(member_id: str, member: Subscriber) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or member_id


def assign_uniform(members: Subscribers, counts: PartitionCounts) -> dict[str, Partitions]:
    """As balanced as possible, and then with as few moved partitions as possible.

    If all members subscribe to the same topics, their partition counts differ by at most one, and
    the number of moved partitions is minimal. Otherwise no single move of a partition to another
    subscriber would reduce the difference between the two members.
    """
    if not members:
        return {}
    kept = _kept(members, counts)
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) == 1:
        owned = _assign_homogeneous(kept, _all_partitions(subscriptions.pop(), counts))
    else:
        owned = _assign_heterogeneous(kept, _subscribers(members, counts), counts)
    return {
        member_id: _by_topic(partitions, members[member_id].before)
        for member_id, partitions in owned.items()
    }


def _subscribers(members: Subscribers, counts: PartitionCounts) -> dict[Uuid, list[str]]:
    """The subscribers of each subscribed topic that exists, in a fixed order."""
    found: dict[Uuid, list[str]] = defaultdict(list)
    for member_id in sorted(members):
        for topic_id in members[member_id].topics:
            if counts.get(topic_id, 0):
                found[topic_id].append(member_id)
    return dict(sorted(found.items()))


def _all_partitions(topics: Iterable[Uuid], counts: PartitionCounts) -> list[TopicIdPartition]:
    return [
        (topic_id, index) for topic_id in sorted(topics) for index in range(counts.get(topic_id, 0))
    ]


def _kept(members: Subscribers, counts: PartitionCounts) -> dict[str, list[TopicIdPartition]]:
    """The partitions that each member can keep: existing, subscribed to, and without an owner."""
    taken: set[TopicIdPartition] = set()
    kept: dict[str, list[TopicIdPartition]] = {}
    for member_id in sorted(members):
        member = members[member_id]
        mine = [
            (topic_id, index)
            for topic_id, indexes in sorted(member.before.items())
            if topic_id in member.topics
            for index in indexes
            if index < counts.get(topic_id, 0) and (topic_id, index) not in taken
        ]
        taken.update(mine)
        kept[member_id] = mine
    return kept


def _assign_homogeneous(
    kept: dict[str, list[TopicIdPartition]], partitions: list[TopicIdPartition]
) -> dict[str, list[TopicIdPartition]]:
    """Every member subscribes to every topic: each keeps up to its share, and gets what is free."""
    least, over = divmod(len(partitions), len(kept))
    # The larger shares go to the members that keep most, so that fewer partitions move.
    order = sorted(kept, key=lambda member_id: (-len(kept[member_id]), member_id))
    share = {member_id: least + (place < over) for place, member_id in enumerate(order)}
    owned = {member_id: mine[: share[member_id]] for member_id, mine in kept.items()}
    given = {partition for mine in owned.values() for partition in mine}
    free = iter([partition for partition in partitions if partition not in given])
    for member_id in sorted(owned):
        for _ in range(share[member_id] - len(owned[member_id])):
            owned[member_id].append(next(free))
    return owned


def _assign_heterogeneous(
    kept: dict[str, list[TopicIdPartition]],
    subscribers: Mapping[Uuid, list[str]],
    counts: PartitionCounts,
) -> dict[str, list[TopicIdPartition]]:
    """Members subscribe to different topics: assigns free partitions, then balances by moves."""
    loads = _Loads(kept)
    # Topics with few subscribers come first: their partitions have the fewest possible owners.
    by_choice = sorted(subscribers, key=lambda topic_id: (len(subscribers[topic_id]), topic_id))
    for topic_id in by_choice:
        loads.fill(topic_id, counts[topic_id], subscribers[topic_id])
    # Every move reduces the difference between two members, so this loop ends.
    while sum(loads.balance(topic_id, subscribers[topic_id]) for topic_id in by_choice):
        pass
    return loads.owned()


class _Loads:
    """The partitions and the partition counts of the members during an assignment."""

    def __init__(self, kept: Mapping[str, list[TopicIdPartition]]) -> None:
        self._owned: dict[str, dict[Uuid, list[int]]] = {}
        self._load: dict[str, int] = {}
        for name, partitions in kept.items():
            self._load[name] = len(partitions)
            by_topic = self._owned[name] = {}
            for topic_id, index in partitions:
                by_topic.setdefault(topic_id, []).append(index)

    def fill(self, topic_id: Uuid, count: int, names: list[str]) -> None:
        """Assigns every free partition to the subscriber with the fewest partitions."""
        taken = {index for name in names for index in self._owned[name].get(topic_id, ())}
        least = [(self._load[name], name) for name in names]
        heapq.heapify(least)
        for index in range(count):
            if index not in taken:
                name = least[0][1]
                self._give(name, topic_id, index)
                heapq.heapreplace(least, (self._load[name], name))

    def balance(self, topic_id: Uuid, names: list[str]) -> int:
        """Moves partitions of one topic between its subscribers; returns how many moved."""
        least = [(self._load[name], name) for name in names]
        most = [(-self._load[name], name) for name in names if self._owned[name].get(topic_id)]
        heapq.heapify(least)
        heapq.heapify(most)
        moved = 0
        while most:
            # An entry of a heap may be older than the last move.
            if -most[0][0] != self._load[most[0][1]] or not self._owned[most[0][1]].get(topic_id):
                heapq.heappop(most)
                continue
            if least[0][0] != self._load[least[0][1]]:
                heapq.heappop(least)
                continue
            giver, receiver = most[0][1], least[0][1]
            if self._load[giver] - self._load[receiver] < 2:
                break
            self._give(receiver, topic_id, self._owned[giver][topic_id].pop())
            self._load[giver] -= 1
            moved += 1
            for name in (giver, receiver):
                heapq.heappush(least, (self._load[name], name))
                heapq.heappush(most, (-self._load[name], name))
        return moved

    def _give(self, name: str, topic_id: Uuid, index: int) -> None:
        self._owned[name].setdefault(topic_id, []).append(index)
        self._load[name] += 1

    def owned(self) -> dict[str, list[TopicIdPartition]]:
        return {
            name: [(topic_id, index) for topic_id, indexes in mine.items() for index in indexes]
            for name, mine in self._owned.items()
        }


def _by_topic(partitions: list[TopicIdPartition], before: Partitions) -> Partitions:
    """Sorted, by topic; `before` itself if it is equal, as for nearly all members."""
    partitions.sort()
    if partitions == [(topic, index) for topic, indexes in before.items() for index in indexes]:
        return before
    return {
        topic_id: tuple([index for _, index in group])
        for topic_id, group in groupby(partitions, key=itemgetter(0))
    }


ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {"uniform": assign_uniform, "range": assign_range}
)
