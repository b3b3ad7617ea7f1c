"""A group's history: its commits, its owners, and the partition that its coordinator leads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ottla.coordinators.runtime.key_hash import java_hash
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from tests.sim.cluster.cluster import BrokerLine
from tests.sim.cluster.oracle import InvariantBroken, PartitionKey
from tests.sim.replication.groups.offset_history import OffsetHistory
from tests.sim.replication.groups.ownership import Claims, GenerationOwners
from tests.sim.replication.world import ReplicationWorld, Target

OFFSETS_PARTITIONS = 2
SESSION_TIMEOUT_MS = 6_000
# Less than a client waits for its answer.
REBALANCE_TIMEOUT_MS = 5_000
GROUP_SETTINGS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "offsets.topic.replication.factor": "3",
    # Of the offsets topic: the others have their own.
    "min.insync.replicas": "2",
    "group.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.initial.rebalance.delay.ms": "300",
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}


class View(NamedTuple):
    """The leader epoch of a group's coordinator, and the excuses of its partition."""

    leader_epoch: int
    excuses: int


class GroupMember(Protocol):
    """What the group wants to know of its members in the end."""

    @property
    def settled_in(self) -> int | None:
        """The generation in which it is stable, of a group that has generations, or None."""
        ...

    @property
    def owned(self) -> frozenset[Target]: ...


@dataclass(slots=True)
class GroupState:
    """One group's. `settled` once all members were stable, with all partitions, in peace."""

    world: ReplicationWorld
    group_id: str
    commits: int = 0
    # How often an offset that a coordinator returned was compared.
    checked: int = 0
    coordinator_moves: int = 0
    epochs: set[int] = field(default_factory=set)
    members: list[GroupMember] = field(default_factory=list)
    generations: GenerationOwners = field(default_factory=GenerationOwners)
    claims: Claims = field(default_factory=Claims)
    is_settled: bool = False
    _offsets: dict[Target, OffsetHistory] = field(default_factory=dict)
    _excuses: int = 0

    @property
    def targets(self) -> Sequence[Target]:
        return self.world.targets

    @property
    def now_s(self) -> float:
        return self.world.cluster.timeline.now_ns / 1e9

    @property
    def partition_key(self) -> PartitionKey | None:
        """The group's partition of the offsets topic; None before any broker knows the topic."""
        for image in self.world.oracle.images.values():
            topic = image.topic(CONSUMER_OFFSETS)
            if topic is not None:
                return topic.topic_id, java_hash(self.group_id) % OFFSETS_PARTITIONS
        return None

    @property
    def excuses(self) -> int:
        """How often all that the group had saved was excused. Forgets it if that is new."""
        key = self.partition_key
        excuses = 0 if key is None else self.world.oracle.losses.excuses(key)
        if excuses != self._excuses:
            self._excuses = excuses
            self.generations.clear()
            self.claims.clear()
            for history in self._offsets.values():
                history.forget()
        return excuses

    def offsets(self, target: Target) -> OffsetHistory:
        if target not in self._offsets:
            self._offsets[target] = OffsetHistory(str(target))
        return self._offsets[target]

    def view(self, line: BrokerLine) -> View | None:
        """None unless the broker is the group's coordinator, and nobody has been since it is.

        Without a lease, a broker that does not know that it was deposed answers what needs no
        record. Such an answer may be outdated, and renews no session.
        """
        key = self.partition_key
        leader_epoch = None if key is None else self.world.epoch_led_by(line, key)
        return None if leader_epoch is None else View(leader_epoch, self.excuses)

    def settle(self) -> None:
        """In peace: notes whether all members are stable, and own all partitions, each one once."""
        if not self.world.is_calm:
            return
        stable = [member for member in self.members if member.settled_in is not None]
        owned = [each for member in stable for each in member.owned]
        self.is_settled = self.is_settled or (
            len(stable) == len(self.members)
            and len({member.settled_in for member in stable}) == 1
            and sorted(owned) == sorted(self.targets)
        )

    def fail_if(self, reason: str | None) -> None:
        if reason is not None:
            raise InvariantBroken(10, f"group {self.group_id}: {reason}")
