"""Who owns which partitions of a group, as its members know it (invariant 10).

A member of the classic protocol owns what SyncGroup gave it in a generation. A member of the
consumer protocol owns what a heartbeat gave it, until it reports the revocation, is fenced, or its
session may be over: the coordinator's session of a member begins when it gets a heartbeat, so it
lasts at least a session timeout after the member has sent the last one that was answered.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tests.sim.replication.world import Target


class Claim(NamedTuple):
    """A member's partitions, and the time until which its session lasts at least."""

    partitions: frozenset[Target]
    until_s: float


class GenerationOwners:
    """By generation of a classic group: the owner of each partition."""

    def __init__(self) -> None:
        self._owners: dict[int, dict[Target, str]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def why_wrong(self, generation: int, owner: str, partitions: Iterable[Target]) -> str | None:
        """A member was given these partitions."""
        owners = self._owners.setdefault(generation, {})
        for each in partitions:
            first = owners.setdefault(each, owner)
            if first != owner:
                return f"{each} is of {first} and of {owner} in generation {generation}"
        return None

    def clear(self) -> None:
        self._owners.clear()


class Claims:
    """Of the members of a group of the consumer protocol, by member id or instance id."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}

    def why_wrong(self, owner: str, claim: Claim, now_s: float) -> str | None:
        """A member owns these partitions from now on, and no others."""
        self._claims[owner] = claim
        if claim.until_s <= now_s:
            return None
        for other, others in self._claims.items():
            shared = claim.partitions & others.partitions
            if other != owner and others.until_s > now_s and shared:
                return f"{min(shared)} is owned by {other} and by {owner}"
        return None

    def give_up(self, owner: str) -> None:
        self._claims.pop(owner, None)

    def clear(self) -> None:
        self._claims.clear()
