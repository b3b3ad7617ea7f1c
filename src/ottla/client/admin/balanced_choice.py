"""Chooses brokers for many partitions at once: evenly, in many failure domains, with few changes.

The same choice is made for replicas (several brokers of a partition) and for preferred leaders (one
of a partition's replicas). Decides, does no I/O, and is deterministic.

The method: each partition chooses by itself, then improvements are made until there are none. An
improvement is a cycle of changes, each of which replaces one broker of a partition by another. It
makes the load more even, or keeps the load and makes fewer changes. Without failure domains the
result is the optimum: that is how cancelling negative cycles solves a flow of minimal cost.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Choice:
    """`count` brokers out of `options`. All of `fixed`, which are among the options, are chosen.

    A broker that is not in `present` is a change; of equally even choices the one with the fewest
    changes is made.
    """

    options: tuple[int, ...]
    count: int
    present: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()


def choose(
    choices: Mapping[K, Choice],
    loads: Mapping[int, int] | None = None,
    domains: Mapping[int, str] | None = None,
) -> dict[K, tuple[int, ...]]:
    """The brokers of each partition, those in `present` first, in their order.

    `loads` is what brokers have besides. `domains` are racks or hosts: a partition has as many of
    them as possible, whatever the load becomes. ValueError if there are too few options.
    """
    board = _Board[K](choices, Counter(loads or {}), domains or {})
    while (cycle := board.improving_cycle()) is not None:
        board.apply(cycle)
    return {key: board.in_order(key) for key in choices}


class _Change(NamedTuple):
    """Replaces a broker by another one; `cost` is by how many there are then more changes."""

    before: int
    after: int
    cost: int


class _Board(Generic[K]):
    """The brokers chosen so far, and all single changes that are possible."""

    def __init__(
        self, choices: Mapping[K, Choice], loads: Counter[int], domains: Mapping[int, str]
    ) -> None:
        self._choices = choices
        self._loads = loads
        self._domains = domains
        self._brokers = sorted({each for choice in choices.values() for each in choice.options})
        self._chosen: dict[K, list[int]] = {}
        # The partitions that can make a change, in a dict for its order.
        self._changes: dict[_Change, dict[K, None]] = {}
        # Changes that would put two replicas into one domain together with another change.
        self._refused: set[tuple[K, int, int]] = set()
        total = sum(choice.count for choice in choices.values())
        # One step of the load outweighs all changes together.
        self._step = 2 * total + 1
        level = sum(self._loads[each] for each in self._brokers) + total
        self._level = -(-level // max(1, len(self._brokers)))
        for key, choice in choices.items():
            self._chosen[key] = self._first_choice(choice)
            self._add_changes(key)

    def in_order(self, key: K) -> tuple[int, ...]:
        chosen, present = self._chosen[key], self._choices[key].present
        stayed = [each for each in present if each in chosen]
        return (*stayed, *sorted(each for each in chosen if each not in present))

    def _first_choice(self, choice: Choice) -> list[int]:
        """Chooses by domain, then brokers below the level, then present ones, then by load."""
        if len(choice.options) < choice.count:
            raise ValueError(f"{choice.count} brokers out of {len(choice.options)}")
        chosen = list(choice.fixed)
        used = Counter(self._domains.get(each) for each in chosen)

        def rank(broker: int) -> tuple[int, bool, bool, int, int]:
            domain = self._domains.get(broker)
            load = self._loads[broker]
            in_domain = 0 if domain is None else used[domain]
            is_new = broker not in choice.present
            return in_domain, load >= self._level, is_new, load, broker

        left = [each for each in choice.options if each not in chosen]
        while len(chosen) < choice.count:
            best = min(left, key=rank)
            left.remove(best)
            chosen.append(best)
            used[self._domains.get(best)] += 1
        self._loads.update(chosen)
        return chosen

    # Single changes

    def _possible(self, key: K) -> list[_Change]:
        choice, chosen = self._choices[key], self._chosen[key]
        used = Counter(self._domains.get(each) for each in chosen)
        found = []
        for before in chosen:
            if before in choice.fixed:
                continue
            old = self._domains.get(before)
            for after in choice.options:
                if after in chosen or (key, before, after) in self._refused:
                    continue
                new = self._domains.get(after)
                # Two replicas that share a domain count; a change must not add to them.
                shared = 0 if old is None else used[old] - 1
                if new is not None and new != old and used[new] > shared:
                    continue
                cost = (after not in choice.present) - (before not in choice.present)
                found.append(_Change(before, after, cost))
        return found

    def _add_changes(self, key: K) -> None:
        for change in self._possible(key):
            self._changes.setdefault(change, {})[key] = None

    def _remove_changes(self, key: K) -> None:
        for change in self._possible(key):
            keys = self._changes[change]
            del keys[key]
            if not keys:
                del self._changes[change]

    def _replace(self, key: K, before: int, after: int) -> None:
        self._remove_changes(key)
        chosen = self._chosen[key]
        chosen[chosen.index(before)] = after
        self._loads[before] -= 1
        self._loads[after] += 1
        self._add_changes(key)

    # Cycles

    def _edges(self) -> dict[tuple[int, int], tuple[int, _Change | None]]:
        """The cheapest step between two brokers: a change, or (None) one more and one less load."""
        edges: dict[tuple[int, int], tuple[int, _Change | None]] = {}
        for before in self._brokers:
            for after in self._brokers:
                if before != after:
                    steps = self._loads[before] + 1 - self._loads[after]
                    edges[before, after] = (self._step * steps, None)
        for change in self._changes:
            between = change.before, change.after
            if change.cost < edges[between][0]:
                edges[between] = (change.cost, change)
        return edges

    def improving_cycle(self) -> list[_Change] | None:
        """The changes of a cycle of negative cost, by Bellman and Ford."""
        if not self._changes:
            return None
        edges = self._edges()
        distance = dict.fromkeys(self._brokers, 0)
        reached_by: dict[int, tuple[int, _Change | None]] = {}
        node = self._brokers[0]
        for _ in self._brokers:
            is_changed = False
            for (before, after), (cost, change) in edges.items():
                if distance[before] + cost < distance[after]:
                    distance[after] = distance[before] + cost
                    reached_by[after] = (before, change)
                    node, is_changed = after, True
            if not is_changed:
                return None
        # A change in as many rounds as there are brokers: so many steps back is inside a cycle.
        for _ in self._brokers:
            node = reached_by[node][0]
        return _walk(reached_by, node)

    def apply(self, cycle: list[_Change]) -> None:
        """Makes the changes, or none if together they would crowd a partition's domains."""
        steps = [(next(iter(self._changes[change])), change) for change in cycle]
        before = {key: self._crowding(key) for key, _ in steps}
        for key, change in steps:
            self._replace(key, change.before, change.after)
        if any(self._crowding(key) > crowding for key, crowding in before.items()):
            for key, change in reversed(steps):
                self._replace(key, change.after, change.before)
            key, change = steps[0]
            self._remove_changes(key)
            self._refused.add((key, change.before, change.after))
            self._add_changes(key)

    def _crowding(self, key: K) -> int:
        """The pairs of chosen brokers that share a domain."""
        used = Counter(self._domains.get(each) for each in self._chosen[key])
        return sum(n * (n - 1) // 2 for domain, n in used.items() if domain is not None)


def _walk(reached_by: Mapping[int, tuple[int, _Change | None]], start: int) -> list[_Change]:
    """The changes of the cycle through this broker."""
    cycle: list[_Change] = []
    node = start
    while True:
        node, change = reached_by[node]
        if change is not None:
            cycle.append(change)
        if node == start:
            return cycle
