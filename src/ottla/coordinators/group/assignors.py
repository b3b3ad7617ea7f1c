"""Who is to read which partitions: the assignors that the broker offers. Pure.

Each takes the members with what they subscribe to and were to own before, and the number of
partitions of every topic. Each partition of a subscribed topic goes to one subscriber, and nothing
else is given out. The answer depends on nothing but the arguments.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from ottla.protocol.primitives import Uuid

Partition = tuple[Uuid, int]
Partitions = Mapping[Uuid, tuple[int, ...]]


class Subscriber(NamedTuple):
    """One member: the topics it wants, and the partitions that it was to own until now."""

    topics: frozenset[Uuid]
    before: Partitions = MappingProxyType({})
    instance_id: str | None = None


Subscribers = Mapping[str, Subscriber]
PartitionCounts = Mapping[Uuid, int]
Assignor = Callable[[Subscribers, PartitionCounts], dict[str, Partitions]]


def assign_range(members: Subscribers, counts: PartitionCounts) -> dict[str, Partitions]:
    """Algorithm 1 of the Kafka paper: of every topic, a run of neighbouring partitions each.

    The first members get the ones that do not divide evenly. Topics with the same subscribers and
    as many partitions are shared out alike, so that equal indexes meet at one member. Static
    members come first, in the order of their instances: they keep their share over a restart.
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
    """As even as it can be, and then with as few moves as possible.

    Where all subscribe to the same topics, no two members differ by more than one partition, and no
    fewer partitions could have moved. Otherwise no partition can be handed from its owner to
    another subscriber so that the two differ by less.
    """
    if not members:
        return {}
    kept = _kept(members, counts)
    wishes = {member.topics for member in members.values()}
    if len(wishes) == 1:
        owned = _fill_alike(kept, _all_partitions(wishes.pop(), counts))
    else:
        owned = _fill_each(kept, _subscribers(members, counts), counts)
    return {
        member_id: _by_topic(partitions, members[member_id].before)
        for member_id, partitions in owned.items()
    }


def _subscribers(members: Subscribers, counts: PartitionCounts) -> dict[Uuid, list[str]]:
    """Who wants each topic that exists and is wanted, in a fixed order."""
    found: dict[Uuid, list[str]] = defaultdict(list)
    for member_id in sorted(members):
        for topic_id in members[member_id].topics:
            if counts.get(topic_id, 0):
                found[topic_id].append(member_id)
    return dict(sorted(found.items()))


def _all_partitions(topics: Iterable[Uuid], counts: PartitionCounts) -> list[Partition]:
    return [
        (topic_id, index) for topic_id in sorted(topics) for index in range(counts.get(topic_id, 0))
    ]


def _kept(members: Subscribers, counts: PartitionCounts) -> dict[str, list[Partition]]:
    """What each member could go on owning: still there, still wanted, and nobody else's."""
    taken: set[Partition] = set()
    kept: dict[str, list[Partition]] = {}
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


def _fill_alike(
    kept: dict[str, list[Partition]], partitions: list[Partition]
) -> dict[str, list[Partition]]:
    """Everybody may own everything: each keeps up to its share, and the rest fills the gaps."""
    least, over = divmod(len(partitions), len(kept))
    # One more than the least goes first to those who already have it: nothing moves for that.
    order = sorted(kept, key=lambda member_id: (-len(kept[member_id]), member_id))
    share = {member_id: least + (place < over) for place, member_id in enumerate(order)}
    owned = {member_id: mine[: share[member_id]] for member_id, mine in kept.items()}
    given = {partition for mine in owned.values() for partition in mine}
    free = iter([partition for partition in partitions if partition not in given])
    for member_id in sorted(owned):
        for _ in range(share[member_id] - len(owned[member_id])):
            owned[member_id].append(next(free))
    return owned


def _fill_each(
    kept: dict[str, list[Partition]],
    subscribers: Mapping[Uuid, list[str]],
    counts: PartitionCounts,
) -> dict[str, list[Partition]]:
    """Members want different topics: the free partitions first, then moves while they help."""
    loads = _Loads(kept)
    # Topics that few want come first: their partitions have the least choice.
    by_choice = sorted(subscribers, key=lambda topic_id: (len(subscribers[topic_id]), topic_id))
    for topic_id in by_choice:
        loads.fill(topic_id, counts[topic_id], subscribers[topic_id])
    # Every move makes two members differ by less, so that this comes to an end.
    while sum(loads.even_out(topic_id, subscribers[topic_id]) for topic_id in by_choice):
        pass
    return loads.owned()


class _Loads:
    """What members own while it is shared out, and how much that is."""

    def __init__(self, kept: Mapping[str, list[Partition]]) -> None:
        self._owned: dict[str, dict[Uuid, list[int]]] = {}
        self._load: dict[str, int] = {}
        for name, partitions in kept.items():
            self._load[name] = len(partitions)
            by_topic = self._owned[name] = {}
            for topic_id, index in partitions:
                by_topic.setdefault(topic_id, []).append(index)

    def fill(self, topic_id: Uuid, count: int, names: list[str]) -> None:
        """Gives every partition that nobody has to the subscriber that has the least."""
        taken = {index for name in names for index in self._owned[name].get(topic_id, ())}
        least = [(self._load[name], name) for name in names]
        heapq.heapify(least)
        for index in range(count):
            if index not in taken:
                name = least[0][1]
                self._give(name, topic_id, index)
                heapq.heapreplace(least, (self._load[name], name))

    def even_out(self, topic_id: Uuid, names: list[str]) -> int:
        """Moves partitions of one topic among its subscribers; how many moved."""
        least = [(self._load[name], name) for name in names]
        most = [(-self._load[name], name) for name in names if self._owned[name].get(topic_id)]
        heapq.heapify(least)
        heapq.heapify(most)
        moved = 0
        while most:
            # What lies in a heap may be older than the last move.
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

    def owned(self) -> dict[str, list[Partition]]:
        return {
            name: [(topic_id, index) for topic_id, indexes in mine.items() for index in indexes]
            for name, mine in self._owned.items()
        }


def _by_topic(partitions: list[Partition], before: Partitions) -> Partitions:
    """In order; `before` itself if nothing has changed, as it is with nearly all members."""
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
